-- want: limit
for a = 1, 1e3 do for b = 1, 1e3 do for c = 1, 1e3 do end end end
