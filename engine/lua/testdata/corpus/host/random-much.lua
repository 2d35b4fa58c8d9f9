-- want: limit timeout
local t = {} while true do t[#t + 1] = crypto.random(1024) t[#t + 1] = crypto.uuid(7) end
