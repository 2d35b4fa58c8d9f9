-- want: limit
-- row: one instruction, gigabytes
local ts = {}
for i = 1, 1e9 do local t = {} table.insert(t, 8191, 1) ts[i] = t end
