-- want: script
local t local x = t[("x"):rep(200000)]
