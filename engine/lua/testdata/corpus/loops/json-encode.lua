-- want: limit timeout
local t = {} for i = 1, 8000 do t[i] = i end while true do json.encode(t) end
