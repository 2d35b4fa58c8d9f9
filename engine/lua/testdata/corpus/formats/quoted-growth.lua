-- want: limit
-- row: string growth
local s = "\n"
while true do s = ("%q"):format(s) end
