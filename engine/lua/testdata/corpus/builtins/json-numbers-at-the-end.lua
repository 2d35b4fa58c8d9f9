-- want: limit timeout
local s = "[" .. (("9"):rep(300) .. "e8,"):rep(600) .. "1]" while true do json.decode(s) end
