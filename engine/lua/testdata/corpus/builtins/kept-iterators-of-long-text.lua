-- want: limit timeout
local s = ("x"):rep(200000) local t = {} for i = 1, 1e9 do t[i] = s:gmatch(".") t[i]() end
