-- want: fine
-- row: hostile results
return setmetatable({}, {__index = function() error("x") end, __pairs = function() error("x") end, __len = function() error("x") end})
