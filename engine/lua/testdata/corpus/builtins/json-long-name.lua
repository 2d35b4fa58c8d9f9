-- want: limit timeout
local s = '{"' .. ("x"):rep(200000) .. '":1}' while true do json.decode(s) end
