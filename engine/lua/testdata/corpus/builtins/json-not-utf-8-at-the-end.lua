-- want: limit timeout
local s = '"' .. ("\195\164"):rep(100000) .. '\255"' while true do pcall(json.decode, s) end
