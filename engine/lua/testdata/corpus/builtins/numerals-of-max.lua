-- want: limit timeout
local d = ("7"):rep(200000) while true do math.max(d, d, d, d, d, d, d, d) end
