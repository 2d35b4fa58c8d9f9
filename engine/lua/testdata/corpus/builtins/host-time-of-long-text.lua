-- want: limit timeout
local s = ("x"):rep(200000) while true do time.parse(s) time.duration(s) end
