-- want: limit timeout
-- alloc: 24MiB what it drops may wait for the collector
local t = {} for i = 1, 16000 do t[i] = '"n' .. i .. '":1' end local s = "{" .. table.concat(t, ",") .. "}" while true do local v = json.decode(s) v.b = 1 end
