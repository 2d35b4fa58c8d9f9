-- want: limit
local l
while true do l = {next = l} end
