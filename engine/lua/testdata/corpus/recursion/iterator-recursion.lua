-- want: limit
local function f() for x in f do end end f()
