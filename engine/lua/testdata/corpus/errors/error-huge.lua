-- want: script
error(("x"):rep(200000))
