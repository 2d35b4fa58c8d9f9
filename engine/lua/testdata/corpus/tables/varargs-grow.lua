-- want: limit timeout
local function f(...) return f(1, 2, 3, ...) end f()
