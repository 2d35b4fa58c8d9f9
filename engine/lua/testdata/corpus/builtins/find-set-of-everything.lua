-- want: limit timeout
local s = ("x"):rep(200000) local p = "[^" .. s .. "]" while true do s:find(p) end
