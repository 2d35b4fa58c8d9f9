-- want: limit
table.insert({}, -1e15, 1)
