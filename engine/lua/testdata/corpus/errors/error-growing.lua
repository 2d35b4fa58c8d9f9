-- want: limit timeout
local s = ("x"):rep(262144) while true do local _, e = pcall(function() local t local x = t[s] end) s = e end
