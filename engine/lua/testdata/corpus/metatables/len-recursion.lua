-- want: limit
local m = {} m.__len = function(a) return #a end return #setmetatable({}, m)
