-- want: limit timeout
local r = (...) if type(r) ~= "table" or type(r.headers) ~= "table" then while true do end end
local list = {} for i = 1, 500 do list[i] = (";c" .. i .. "="):rep(20000) end r.headers.cookie = list
while true do local _ = r.cookies.c1 r.cookies[#r.cookies + 1] = r.cookies end
