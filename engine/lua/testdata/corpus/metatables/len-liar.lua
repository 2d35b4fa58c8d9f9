-- want: fine limit script
local t = setmetatable({}, {__len = function() return 1e15 end})
return #t, unpack(t), table.concat(t), table.remove(t)
