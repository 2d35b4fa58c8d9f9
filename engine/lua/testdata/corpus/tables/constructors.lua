-- want: limit
local t = {}
for i = 1, 1e9 do t[i] = {1, 2, 3, a = 1, b = {2}} end
