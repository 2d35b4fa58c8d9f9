-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local s = "[" .. ("[1],"):rep(8000) .. "x" while true do pcall(json.decode, s) end
