-- want: limit timeout
local s = "[" .. ("1,"):rep(8000) .. "1]" while true do json.decode(s) end
