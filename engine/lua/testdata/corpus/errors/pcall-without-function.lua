-- want: script
pcall()
