-- want: limit
(("a"):rep(30)):find(("a-"):rep(15).."b")
