-- want: limit
local m = {} m.__unm = function(a) return -a end return -setmetatable({}, m)
