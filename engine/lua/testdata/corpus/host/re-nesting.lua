-- want: script
for _, p in ipairs({("("):rep(1e5), ("(?:"):rep(341), ("["):rep(1000), ("a|"):rep(500), ("a**"):rep(300), "\\Q" .. ("("):rep(1000), ("(?i"):rep(300)}) do pcall(re.test, "a", p) end
re.test("a", ("("):rep(500))
