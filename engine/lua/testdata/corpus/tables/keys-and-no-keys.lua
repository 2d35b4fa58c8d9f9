-- gopher-lua never forgets a key.
-- want: limit timeout
local t = {}
for i = 1, 1e9 do t[i + 0.5] = i t[i + 0.5] = nil end
