-- want: limit timeout
local s = ("x"):rep(190000) while true do base64.encode(s) end
