-- want: limit
local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, #t + 1, v) t.x = v end})
t.x = 1
