-- want: limit timeout
local t, s = {}, '"' .. ("\\u0041"):rep(1000) .. '"' for i = 1, 1e9 do t[i] = json.decode(s) end
