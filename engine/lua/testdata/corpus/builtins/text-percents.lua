-- want: limit timeout
local f = ("%%"):rep(100000) while true do f:format() end
