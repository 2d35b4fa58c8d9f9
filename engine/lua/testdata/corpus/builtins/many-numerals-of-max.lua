-- want: limit timeout
local t = {} for i = 1, 7000 do t[i] = "1" .. i .. "e-300" end while true do math.max(unpack(t)) end
