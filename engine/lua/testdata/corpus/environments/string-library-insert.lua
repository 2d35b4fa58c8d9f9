-- want: script
table.insert(string, 1)
