-- want: limit
-- row: string growth
local s = "x" while true do s = base64.encode(s) end
