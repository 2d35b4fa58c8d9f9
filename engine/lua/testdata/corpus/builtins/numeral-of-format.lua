-- want: limit timeout
local d = ("7"):rep(200000) while true do ("%d"):format(d) end
