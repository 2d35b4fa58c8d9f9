-- want: limit timeout
local s = ("x"):rep(200000) while true do ratelimit.allow(s, {rate = 1}) end
