-- want: fine
-- row: hostile results
return setmetatable({}, {__index = function() while true do end end, __tostring = function() while true do end end})
