-- want: limit
local t = {}
for i = 1, 1e9 do local u = {} u[1] = 1 t[i] = u end
