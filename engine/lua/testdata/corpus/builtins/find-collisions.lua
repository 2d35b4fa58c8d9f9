-- Strings of Thue and Morse have the same rolling hash, whatever its base.
-- want: limit timeout
local a, b = "a", "b"
for i = 1, 8 do a, b = a .. b, b .. a end
local s = a:rep(800)
local p = s:sub(1, 100000 - #a % 256) .. b
while true do s:find(p, 1, true) end
