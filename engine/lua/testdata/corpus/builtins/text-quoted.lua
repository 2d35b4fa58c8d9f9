-- want: limit timeout
local s = ('"'):rep(100000) while true do ("%q"):format(s) end
