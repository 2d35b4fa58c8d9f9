-- want: limit
local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) tostring(t)
