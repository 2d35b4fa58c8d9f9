-- want: fine
local t = {3, 2, 1} table.sort(t, function(a, b) t[#t + 1] = 1 return a < b end)
