-- want: limit timeout
local s = ("a"):rep(200000) .. "!!" while true do crypto.unhex(s) end
