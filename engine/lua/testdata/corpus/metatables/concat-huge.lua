-- want: limit
local m = {__concat = function(a, b) return ("x"):rep(262144) end}
local t = setmetatable({}, m)
return "y" .. ("y" .. t)
