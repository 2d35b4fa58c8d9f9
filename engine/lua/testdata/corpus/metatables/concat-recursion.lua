-- want: limit
local m = {} m.__concat = function(a, b) return a .. b end return setmetatable({}, m) .. "x"
