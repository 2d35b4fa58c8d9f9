-- want: script limit fine
local t = {}
t.__index = t
setmetatable(t, t)
return t.x
