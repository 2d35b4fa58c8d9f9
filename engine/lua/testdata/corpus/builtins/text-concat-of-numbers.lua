-- want: limit timeout
local t = {} for i = 1, 8000 do t[i] = i / 7 end while true do table.concat(t) end
