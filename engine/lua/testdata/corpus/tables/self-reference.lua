-- want: fine
local t = {}
t.t, t[1], t[t] = t, t, t
