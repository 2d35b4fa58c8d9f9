-- want: limit timeout
local d = ("7"):rep(200000) while true do ("x"):sub(d) end
