-- want: limit timeout
local i = 0 while true do i = i + 1 pcall(counter.add, "c" .. i) end
