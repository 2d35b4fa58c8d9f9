-- want: limit
local m = {} m.__add = function(a, b) return a + b end return setmetatable({}, m) + 1
