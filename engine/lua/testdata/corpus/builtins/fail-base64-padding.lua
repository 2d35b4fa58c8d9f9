-- want: limit timeout
local s = ("="):rep(200000) while true do base64.decode(s) end
