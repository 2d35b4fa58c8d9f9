-- want: limit
local t = {} for i = 1, 30 do t = {t, t} end json.encode(t)
