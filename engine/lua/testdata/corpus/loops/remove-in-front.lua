-- want: limit timeout
local t = {} for i = 1, 8000 do t[i] = i end while true do t[8000] = 1 table.remove(t, 1) end
