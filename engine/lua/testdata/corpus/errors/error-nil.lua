-- want: script
error()
