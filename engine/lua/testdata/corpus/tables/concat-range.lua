-- want: script
table.concat({}, "", -1e15, 1e15)
