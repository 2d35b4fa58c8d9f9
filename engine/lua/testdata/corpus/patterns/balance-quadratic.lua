-- want: limit timeout
(("("):rep(250000)):find("%b()")
