-- want: limit fine
local s = {("x"):rep(1000)}
local t = {}
for i = 1, 1000 do t[i] = s end
return t
