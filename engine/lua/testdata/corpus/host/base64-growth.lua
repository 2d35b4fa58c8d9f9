-- want: limit
local s = "x" while true do s = base64.encode(s) end
