-- want: limit timeout
-- row: builtins never look at the context
local t = {} for i = 1, 8000 do t[i] = "" end while true do table.concat(t) end
