-- want: script fine
local t = {}
for i = 1, 300 do t = setmetatable({}, {__index = t}) end
return t.x
