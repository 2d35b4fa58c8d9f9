-- want: limit timeout
local s = ("a "):rep(1000)
for a in s:gmatch("%a") do for b in s:gmatch("%a") do for c in s:gmatch("%a") do end end end
