-- want: limit
-- row: one instruction, gigabytes
local t = {}
local function f(...) return {...} end
for i = 1, 1e9 do t[i] = f(unpack({}, 1, 7999)) end
