-- want: script
local t = {} t[0/0] = 1
