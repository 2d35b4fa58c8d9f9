-- want: limit timeout
while true do pcall(log.error, ("\27[2J\n"):rep(1000)) end
