-- want: script
(("x"):rep(200000)):byte(1, -1)
