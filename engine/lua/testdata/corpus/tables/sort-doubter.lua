-- want: fine
local t = {} for i = 1, 500 do t[i] = i end table.sort(t, function() return math.random() < 0.5 end)
