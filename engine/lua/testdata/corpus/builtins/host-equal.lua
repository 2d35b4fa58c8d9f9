-- want: limit timeout
local s = ("x"):rep(200000) local r = s:reverse() while true do crypto.equal(s, r) end
