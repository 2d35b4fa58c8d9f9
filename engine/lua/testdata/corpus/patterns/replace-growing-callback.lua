-- want: limit timeout
local s = "x"
while true do s = s:gsub(".", function(c) return c .. c end) end
