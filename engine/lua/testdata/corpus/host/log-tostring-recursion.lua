-- want: limit
local t = setmetatable({}, {}) getmetatable(t).__tostring = function(v) log.info(v) return "x" end log.info(t)
