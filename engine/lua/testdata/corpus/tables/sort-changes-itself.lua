-- want: fine limit script
local t = {3, 2, 1, 5, 4}
table.sort(t, function(a, b) for i = 1, 5 do t[i] = nil end return a < b end)
