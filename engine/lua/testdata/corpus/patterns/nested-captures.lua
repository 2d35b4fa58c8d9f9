-- want: limit
-- row: builtins never look at the context
(("a"):rep(40)):find(("(a*)"):rep(15) .. "b")
