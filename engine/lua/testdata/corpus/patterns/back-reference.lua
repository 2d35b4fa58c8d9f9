-- want: limit timeout
(("a"):rep(100000)):find("(a*)%1b")
