-- Paid for once, copied for ever.
-- want: limit timeout
-- row: one instruction, gigabytes
local t = {}
local function f(...) for i = 1, 1e9 do t[i] = {...} end end
f(unpack({}, 1, 7999))
