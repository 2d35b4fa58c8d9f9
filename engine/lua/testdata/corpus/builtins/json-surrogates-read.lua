-- want: limit timeout
local s = '{"a":"' .. ("\\ud800"):rep(40000) .. '"}' while true do local v = json.decode(s).a end
