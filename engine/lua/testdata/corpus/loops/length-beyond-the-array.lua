-- want: limit timeout
local t = {}
for i = 1, 20000 do t[i] = i end
while true do local n = #t end
