-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(string.gsub, "xy", ".", {x = s, y = {}}) end
