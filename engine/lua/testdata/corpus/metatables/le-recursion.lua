-- want: limit
local m = {} m.__le = function(a, b) return a <= b end return setmetatable({}, m) <= setmetatable({}, m)
