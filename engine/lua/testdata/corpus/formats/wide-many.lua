-- want: limit
-- row: string growth
local t = {}
for i = 1, 4000 do t[i] = i end
return (("%99d"):rep(4000)):format(unpack(t))
