-- want: limit
local t = {}
for i = 1, 1e9 do t[i] = ("%d:%d"):format(i, i) end
