-- want: limit
local s = ("ab"):rep(1000)
while true do s = s:gsub("(a)(b)", "%2%1%0") end
