-- want: limit timeout
-- row: one instruction, gigabytes
local t = {}
local function f(...) t[#t + 1] = arg end
local function g(...) for i = 1, 1e9 do f(...) end end
g(unpack({}, 1, 7999))
