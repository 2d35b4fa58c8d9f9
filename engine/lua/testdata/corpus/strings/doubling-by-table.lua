-- want: limit
-- row: string growth
local s = "a" while true do s = table.concat({s, s}) end
