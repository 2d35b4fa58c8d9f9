-- want: script
local t = {}
t[("x"):rep(200000)]()
