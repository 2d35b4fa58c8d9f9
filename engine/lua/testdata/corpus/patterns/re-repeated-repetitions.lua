-- A short expression whose program has a million instructions.
-- want: fine script limit
re.test("a", "((a{100}){100}){100}")
