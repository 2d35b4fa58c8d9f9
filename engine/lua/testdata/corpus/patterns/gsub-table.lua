-- want: limit
(("a"):rep(10000)):gsub("a", {a = ("b"):rep(10000)})
