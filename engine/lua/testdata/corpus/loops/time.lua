-- want: limit
local t = os.time() repeat until os.time() > t + 1000
