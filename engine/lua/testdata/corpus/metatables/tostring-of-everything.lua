-- want: script limit fine
local t = setmetatable({}, {__tostring = function() return nil end})
return tostring(t)
