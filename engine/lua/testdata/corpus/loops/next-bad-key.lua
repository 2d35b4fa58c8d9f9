-- want: limit
local t, k = {a = 1, b = 2} repeat k = next(t, "nokey") until false
