-- want: limit timeout
local t = {} while true do t[#t + 1] = kv.keys() end
