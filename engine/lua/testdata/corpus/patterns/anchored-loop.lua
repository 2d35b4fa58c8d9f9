-- want: limit timeout
local s = ("a"):rep(200000)
while true do s:match("^(.-)$") end
