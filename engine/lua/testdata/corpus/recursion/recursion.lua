-- want: limit
local function f() f() end f()
