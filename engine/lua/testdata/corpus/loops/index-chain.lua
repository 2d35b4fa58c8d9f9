-- One instruction walks ninety tables.
-- want: limit timeout script
local t = {}
for i = 1, 90 do t = setmetatable({}, {__index = t}) end
while true do local x = t.nothere end
