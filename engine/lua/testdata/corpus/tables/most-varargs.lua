-- want: limit timeout
-- row: one instruction, gigabytes
-- alloc: 768MiB the process's guard stops calls when the heap has grown by 256 MiB, and looks every 5 ms
-- limits: most
local t = {}
for i = 1, 1e9 do t[i] = {unpack({}, 1, 7999)} end
