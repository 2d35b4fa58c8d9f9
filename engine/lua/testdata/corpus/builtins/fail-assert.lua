-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(function() assert(false, s) end) end
