-- want: limit timeout
local d = (" "):rep(130000) .. "1" .. (" "):rep(130000) while true do tonumber(d) end
