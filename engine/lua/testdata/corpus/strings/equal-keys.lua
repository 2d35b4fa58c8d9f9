-- A long string is hashed at each look-up.
-- want: limit timeout
local s, t = ("x"):rep(200000), {}
local k = s .. "a"
t[k] = 1
while true do local v = t[s .. "a"] end
