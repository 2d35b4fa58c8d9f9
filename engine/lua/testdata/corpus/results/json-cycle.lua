-- want: limit
local t = {} t[1] = t json.encode(t)
