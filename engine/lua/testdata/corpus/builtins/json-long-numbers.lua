-- want: limit timeout
local s = "[" .. ("1." .. ("7"):rep(790) .. "e-300,"):rep(250) .. "1]" while true do json.decode(s) end
