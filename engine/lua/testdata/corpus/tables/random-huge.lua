-- want: fine
return tostring(math.random(-1e308, 1e308))
