-- want: limit
(("a"):rep(10000)):gsub("a", function() return ("b"):rep(10000) end)
