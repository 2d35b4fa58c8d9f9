-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(function() local n = "x" n[s] = 1 end) end
