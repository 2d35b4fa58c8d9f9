-- want: limit timeout
local s = ("."):rep(100000) while true do re.escape(s) end
