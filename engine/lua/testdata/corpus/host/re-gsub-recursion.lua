-- want: limit
local function f() return re.gsub("a", "a", f) end f()
