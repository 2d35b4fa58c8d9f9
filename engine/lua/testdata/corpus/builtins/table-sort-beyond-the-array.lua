-- want: limit timeout
local t = {} for i = 1, 15000 do t[i] = -i end while true do table.sort(t) end
