-- want: limit timeout
local s = ("x"):rep(262144) while true do crypto.hmac("sha256", s, s) end
