-- want: limit timeout
local function f() pcall(f) pcall(f) end f()
