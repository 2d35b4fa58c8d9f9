-- want: limit timeout
while true do time.format(time.now()) pcall(time.format, 1e300) time.parse(("9"):rep(60)) time.duration(("1h"):rep(30)) end
