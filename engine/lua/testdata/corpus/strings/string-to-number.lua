-- want: limit timeout
local s = ("0"):rep(200000) while true do local n = s + 1 end
