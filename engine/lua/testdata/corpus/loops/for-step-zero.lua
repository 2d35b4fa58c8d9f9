-- want: limit
for i = 10, 1, 0 do end
