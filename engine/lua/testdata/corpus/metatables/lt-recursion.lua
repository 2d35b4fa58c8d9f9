-- want: limit
local m = {} m.__lt = function(a, b) return a < b end return setmetatable({}, m) < setmetatable({}, m)
