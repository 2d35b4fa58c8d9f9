-- want: fine script
local t = setmetatable({}, {__len = function() return "x" end})
for i = 1, #t do end
