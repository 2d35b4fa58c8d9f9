-- want: limit timeout
local t, s, h = {}, ("eHh4"):rep(60000), ("41"):rep(120000) while true do t[#t + 1] = base64.decode(s) t[#t + 1] = crypto.unhex(h) end
