-- want: limit
-- row: string growth
local s = "a" while true do s = s:gsub(".", "%0%0") end
