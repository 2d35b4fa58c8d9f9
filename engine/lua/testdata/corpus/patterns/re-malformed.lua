-- want: fine script limit
re.test("", "(")
