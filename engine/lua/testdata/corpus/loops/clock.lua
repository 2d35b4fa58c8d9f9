-- want: limit
local t = os.clock() repeat until os.clock() > t + 1000
