-- want: fine script
pcall(time.format, 1e300) pcall(time.format, 0/0) pcall(time.parse, ("9"):rep(1000)) pcall(time.duration, ("9h"):rep(1000))
