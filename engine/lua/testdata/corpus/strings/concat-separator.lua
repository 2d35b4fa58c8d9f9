-- want: limit
local t = {} for i = 1, 8000 do t[i] = 1 end table.concat(t, ("x"):rep(1000))
