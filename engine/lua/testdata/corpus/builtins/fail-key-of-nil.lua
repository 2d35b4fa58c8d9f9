-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(function() local n = nil return n[s] end) end
