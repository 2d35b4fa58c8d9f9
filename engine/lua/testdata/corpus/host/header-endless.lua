-- want: limit timeout
local h = {} for i = 1, 5000 do h["H" .. i] = "v" end local r = (...) if type(r) == "table" then r.headers = h end
while true do get_request_header("none") get_request_header(("N"):rep(100000)) end
