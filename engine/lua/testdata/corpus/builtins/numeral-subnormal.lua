-- want: limit timeout
local d = "0." .. ("0"):rep(323) .. ("4940656458412465441765687928682213723651"):rep(20) while true do tonumber(d) end
