-- want: script
local t = json.array()
t.x = 1
return t
