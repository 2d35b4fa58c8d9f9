-- want: limit
local t = setmetatable({}, {__tostring = function(t) return ("%s"):format(t) end}) tostring(t)
