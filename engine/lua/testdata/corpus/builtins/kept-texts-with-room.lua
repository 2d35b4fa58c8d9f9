-- want: limit timeout
local t = {} for i = 1, 1e9 do t[i] = ("%s%s"):format(("x"):rep(513), i) end
