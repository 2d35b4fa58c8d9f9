-- want: script limit
local f = setmetatable({}, {})
for i = 1, 300 do f = setmetatable({}, {__call = f}) end
f()
