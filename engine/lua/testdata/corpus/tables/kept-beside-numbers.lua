-- What lives stays, while numbers become garbage that is not counted.
-- want: limit
local kept = {}
local function f(...) for i = 1, 60 do kept[i] = {...} end end
pcall(f, unpack({}, 1, 2000))
local x = 0.5
while true do x = x + 1.5 end
