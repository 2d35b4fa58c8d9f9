-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(json.encode, {a = s, b = print}) end
