-- want: limit timeout
local s = ("x"):rep(200000) s = s .. "!" while true do base64.decode(s) end
