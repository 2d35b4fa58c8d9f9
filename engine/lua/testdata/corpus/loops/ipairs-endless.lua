-- want: limit
local t = setmetatable({}, {__index = function(_, i) return i end})
local i = 0
repeat i = i + 1 until t[i] == nil
