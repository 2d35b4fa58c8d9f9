-- Each is a part of one string, and costs no memory of its own.
-- want: limit timeout
local s, t = ("x"):rep(262144), {}
for i = 1, 1e9 do t[i] = s:sub(i % 1000) end
