-- want: limit timeout
local t, s = {}, ("x"):rep(150000) while true do t[#t + 1] = base64.encode(s) end
