-- want: limit timeout
local s = "[" .. ("[1],"):rep(8000) .. "x" while true do pcall(json.decode, s) end
