-- want: script
table.concat({}, "x", 1, 1e15)
