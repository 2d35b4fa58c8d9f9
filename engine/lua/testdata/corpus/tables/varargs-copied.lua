-- want: limit timeout
local function f(...) return f(...) end f(unpack({}, 1, 7999))
