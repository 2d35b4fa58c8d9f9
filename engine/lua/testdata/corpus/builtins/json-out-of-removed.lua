-- What was removed is stepped over.
-- want: limit timeout
local t = {} for i = 1, 8000 do t["n" .. i] = i end for i = 1, 7999 do t["n" .. i] = nil end while true do json.encode(t) end
