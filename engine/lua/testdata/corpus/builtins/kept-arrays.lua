-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local t, s = {}, "[" .. ("[],"):rep(500) .. "1]" for i = 1, 1e9 do t[i] = json.decode(s) end
