-- want: limit
(("a"):rep(28)):match(("a?"):rep(28)..("a"):rep(28).."b")
