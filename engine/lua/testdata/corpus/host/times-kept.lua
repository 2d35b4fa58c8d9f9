-- want: limit timeout
local t = {} while true do t[#t + 1] = time.format(#t) t[#t + 1] = crypto.sha256("x", "raw") end
