-- want: limit timeout
local t = {} for i = 1, 1e9 do t[i] = ("x"):gmatch("x") end
