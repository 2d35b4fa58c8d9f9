-- want: limit timeout
local s = ("x"):rep(200000) while true do get_request_header(s) end
