-- want: limit timeout
local function f(...) return arg end for i = 1, 1e9 do f(unpack({}, 1, 7999)) end
