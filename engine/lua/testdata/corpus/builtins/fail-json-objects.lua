-- want: limit timeout
local s = '{"a":' .. ('{"b":1},"c":'):rep(4000) .. "x" while true do pcall(json.decode, s) end
