-- want: limit timeout
local s = ("x"):rep(200000) while true do ("x"):find(s) end
