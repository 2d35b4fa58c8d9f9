-- want: limit
for i = 1, math.huge do end
