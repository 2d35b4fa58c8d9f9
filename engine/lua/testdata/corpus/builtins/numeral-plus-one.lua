-- A numeral is read again by each operator.
-- want: limit timeout
local d = ("7"):rep(200000) while true do local x = d + 1 end
