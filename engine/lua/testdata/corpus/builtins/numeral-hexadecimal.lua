-- want: limit timeout
local d = "0x" .. ("f"):rep(200000) while true do tonumber(d) end
