-- want: limit timeout
local s = ("1"):rep(200000) while true do tonumber(s) end
