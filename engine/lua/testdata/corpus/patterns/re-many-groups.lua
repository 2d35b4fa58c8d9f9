-- want: fine script limit
re.match("a", ("(a)"):rep(300))
