-- want: limit
-- row: string growth
local s = "a" while true do s = s .. s end
