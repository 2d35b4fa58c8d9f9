-- want: limit timeout
local s, t = ("x"):rep(100000), {}
for i = 1, 150 do t[i] = s .. i end
while true do table.sort(t) end
