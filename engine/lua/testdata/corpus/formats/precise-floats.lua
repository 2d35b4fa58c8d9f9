-- want: limit timeout
while true do ("%.99f"):format(1e308) end
