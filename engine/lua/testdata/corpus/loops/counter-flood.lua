-- want: limit timeout script
local i = 0
while true do i = i + 1 counter.add("c" .. i, 1) end
