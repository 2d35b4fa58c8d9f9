-- want: fine
return ("abc"):sub(0/0, math.huge), ("abc"):byte(-1e300, 1e300), ("abc"):find("b", -1e300)
