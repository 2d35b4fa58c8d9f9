-- want: limit
local m = {__eq = function() return false end}
local a, b = setmetatable({}, m), setmetatable({}, m)
while a ~= b do end
