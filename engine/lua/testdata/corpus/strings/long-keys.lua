-- want: limit
local t, s = {}, ("x"):rep(10000)
for i = 1, 1e9 do t[s .. i] = i end
