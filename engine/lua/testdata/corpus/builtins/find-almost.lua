-- want: limit timeout
local s = ("x"):rep(200000) local p = s:sub(1, 100000) .. "y" while true do s:find(p, 1, true) end
