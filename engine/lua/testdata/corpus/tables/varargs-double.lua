-- want: limit timeout
local function f(...) local a = {...} return f(unpack(a), unpack(a)) end f(1)
