-- want: limit timeout
local s = '{"' .. ("\\u0041"):rep(40000) .. '":1}' while true do json.decode(s) end
