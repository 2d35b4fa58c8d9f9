-- want: limit timeout
local t = {} for i = 1, 1e9 do t[i + 0.5] = i end
