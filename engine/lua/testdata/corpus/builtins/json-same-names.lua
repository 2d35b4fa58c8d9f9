-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local s = "{" .. ('"a":1,'):rep(16000) .. '"a":1}' while true do local v = json.decode(s) v.b = 1 end
