-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(json.encode, {s, print}) end
