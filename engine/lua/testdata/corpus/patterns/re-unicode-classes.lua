-- want: fine script limit
re.test("a", ("\\pL"):rep(200))
