-- want: limit
local function f() ("a"):gsub("a", f) end f()
