-- want: limit timeout
while true do log.info(("x"):rep(100000), {a = ("y"):rep(100000)}) end
