-- want: fine script limit
-- row: Go stack overflow in parser, patterns, replacement strings
re.test("", ("("):rep(500) .. (")"):rep(500))
