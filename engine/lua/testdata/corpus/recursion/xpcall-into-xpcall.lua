-- want: fine limit timeout
local function f() xpcall(f, f) end f()
