-- want: limit timeout
local t = {} for i = 1, 8000 do t["n" .. i] = i end for i = 1, 7999 do t["n" .. i] = nil end while true do log.info("x", t) end
