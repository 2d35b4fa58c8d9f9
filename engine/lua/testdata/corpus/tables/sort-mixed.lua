-- want: script
table.sort({1, "a", {}})
