-- want: limit script
local t = {}
for i = 1, 1e9 do t[i] = crypto.random(1000) end
