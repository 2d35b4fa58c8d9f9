-- want: script
error("x" .. {})
