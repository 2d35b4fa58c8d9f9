-- want: limit timeout
local t = {1}
while true do for k in pairs(t) do t[#t + 1] = k end end
