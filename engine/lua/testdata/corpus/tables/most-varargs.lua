-- want: limit timeout
-- row: one instruction, gigabytes
-- alloc: 96MiB however many instructions, a call allocates no more than 64 MiB
-- limits: most
local t = {}
for i = 1, 1e9 do t[i] = {unpack({}, 1, 7999)} end
