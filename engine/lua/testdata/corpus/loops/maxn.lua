-- want: limit timeout
local t = {} for i = 1, 10000 do t[-i] = i end while true do table.maxn(t) end
