-- Each is put together in more room than it needs.
-- want: limit timeout
local t = {} for i = 1, 1e9 do t[i] = i .. "" end
