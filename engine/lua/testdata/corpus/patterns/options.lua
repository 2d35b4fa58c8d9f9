-- want: limit
(("a"):rep(1000)):find(("a?"):rep(1000))
