-- want: limit timeout
local t, s = {}, ("x"):rep(120000) while true do t[#t + 1] = crypto.hex(s) t[#t + 1] = crypto.unhex(t[#t]) end
