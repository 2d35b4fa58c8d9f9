-- want: limit timeout
local t = {} for i = 1, 8000 do t["n" .. i] = i end for i = 1, 7999 do t["n" .. i] = nil end t.n8000 = nil t.rate = 1 while true do pcall(ratelimit.allow, "x", t) end
