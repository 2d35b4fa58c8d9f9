-- want: limit timeout
local t = {} while true do t[#t + 1] = re.escape((("."):rep(100000))) end
