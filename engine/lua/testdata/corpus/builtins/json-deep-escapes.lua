-- Each level reads what is below it again.
-- want: limit timeout
local s = ('{"a":'):rep(30) .. '"' .. ("\\u0041"):rep(30000) .. '"' .. ("}"):rep(30) while true do local v = json.decode(s) for i = 1, 29 do v = v.a end end
