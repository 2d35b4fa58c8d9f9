-- want: limit timeout
local d = ("0"):rep(130000) .. "." .. ("0"):rep(130000) while true do tonumber(d) end
