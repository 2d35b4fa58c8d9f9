-- want: limit timeout
local d = "1e" .. ("9"):rep(200000) while true do tonumber(d) end
