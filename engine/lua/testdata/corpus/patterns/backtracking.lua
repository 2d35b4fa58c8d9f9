-- want: limit
-- row: builtins never look at the context
(("a"):rep(30)):find(("a*"):rep(15).."b")
