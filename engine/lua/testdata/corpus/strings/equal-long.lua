-- One instruction compares 256 KiB.
-- want: limit timeout
local s = ("x"):rep(262143)
local a, b = s .. "a", s .. "b"
while a ~= b do end
