-- want: limit timeout
local s = '{"a":"' .. ("\\ud800"):rep(40000) .. '"}' while true do json.decode(s) end
