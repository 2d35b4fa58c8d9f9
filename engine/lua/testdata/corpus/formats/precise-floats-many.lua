-- want: limit
local t = {}
for i = 1, 2000 do t[i] = 1e308 end
return (("%.99f"):rep(2000)):format(unpack(t))
