-- want: script
error(error)
