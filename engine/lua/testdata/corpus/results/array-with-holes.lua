-- want: script fine
local t = json.array()
t[1], t[5000] = 1, 1
return t
