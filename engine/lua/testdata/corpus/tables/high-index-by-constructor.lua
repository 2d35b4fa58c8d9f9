-- want: limit
-- row: one instruction, gigabytes
local ts = {}
for i = 1, 1e9 do ts[i] = {[8191] = 1} end
