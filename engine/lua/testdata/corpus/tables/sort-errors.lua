-- want: script
table.sort({3, 2, 1}, function() error("no") end)
