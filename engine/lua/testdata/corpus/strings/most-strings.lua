-- want: limit timeout
-- row: string growth
-- alloc: 96MiB however many instructions, a call allocates no more than 64 MiB
-- limits: most
local t = {}
for i = 1, 1e9 do t[i] = ("x"):rep(1e6) .. i end
