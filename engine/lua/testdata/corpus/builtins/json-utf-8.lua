-- want: limit timeout
local s = '"' .. ("\195\164"):rep(100000) .. '"' while true do json.decode(s) end
