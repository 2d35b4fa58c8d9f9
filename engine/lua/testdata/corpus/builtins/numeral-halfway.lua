-- What lies between two doubles is decided by its last digit.
-- want: limit timeout
local d = "1." .. ("0"):rep(15) .. "11102230246251565404236316680908203125" .. ("0"):rep(100000) .. "1" while true do tonumber(d) end
