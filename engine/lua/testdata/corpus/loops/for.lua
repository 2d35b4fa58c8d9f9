-- want: limit
for i = 1, 1e9 do end
