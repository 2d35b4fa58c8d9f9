-- want: limit
local m = {} m.__call = function(a) return a() end return setmetatable({}, m)()
