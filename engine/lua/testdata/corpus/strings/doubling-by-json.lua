-- want: limit
local s = '"' while true do s = json.encode(s) end
