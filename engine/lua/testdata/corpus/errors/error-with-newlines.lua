-- want: script
error(("line\n"):rep(10000))
