-- want: limit timeout
local r = ("%%"):rep(100000) while true do ("x"):gsub("x", r) end
