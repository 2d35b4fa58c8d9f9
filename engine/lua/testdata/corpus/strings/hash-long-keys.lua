-- One instruction hashes 256 KiB.
-- want: limit timeout
local s, t = ("x"):rep(262144), {}
t[s] = 1
while true do local v = t[s] end
