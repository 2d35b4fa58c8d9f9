-- want: fine
table.remove({}, 1e15)
table.remove({1}, -5)
table.remove({})
