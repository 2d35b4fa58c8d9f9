-- want: limit timeout
local s = ("x"):rep(260000) while true do crypto.sha512(s) crypto.hmac("sha512", s, s) end
