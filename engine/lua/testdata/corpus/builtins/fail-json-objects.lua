-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local s = '{"a":' .. ('{"b":1},"c":'):rep(4000) .. "x" while true do pcall(json.decode, s) end
