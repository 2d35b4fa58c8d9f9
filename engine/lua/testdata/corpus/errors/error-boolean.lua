-- want: script
error(false)
