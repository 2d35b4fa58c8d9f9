-- want: limit timeout
local d = ("7"):rep(200000) while true do os.time({year = d, month = d, day = d}) end
