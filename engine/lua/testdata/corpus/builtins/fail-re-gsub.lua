-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(re.gsub, "xy", ".", {x = s, y = {}}) end
