-- want: limit
-- row: string growth
local s, t = ("x"):rep(131072), {}
for i = 1, 1e9 do t[i] = s .. i end
