-- want: limit timeout
local f = ("%c"):rep(5000) while true do os.date(f) end
