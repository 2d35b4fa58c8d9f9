-- want: limit timeout
local r = ("%%"):rep(60000) while true do re.gsub("x", "x", r) end
