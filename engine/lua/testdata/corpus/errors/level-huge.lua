-- want: script
error("x", 1e15)
