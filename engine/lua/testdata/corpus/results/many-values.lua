-- want: limit
-- row: hostile results
local t = {}
for i = 1, 20000 do t[i] = i end
return t
