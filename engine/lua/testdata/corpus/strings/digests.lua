-- want: limit timeout
local s = ("x"):rep(262144) while true do crypto.sha512(s) end
