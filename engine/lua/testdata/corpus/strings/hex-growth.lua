-- want: limit
-- row: string growth
local s = "x" while true do s = crypto.hex(s) end
