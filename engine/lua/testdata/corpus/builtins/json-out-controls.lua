-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local s = ("\1"):rep(40000) while true do json.encode(s) end
