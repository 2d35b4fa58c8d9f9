-- want: limit timeout
local s = ("a"):rep(7999) while true do s:byte(1, -1) end
