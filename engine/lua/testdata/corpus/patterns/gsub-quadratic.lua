-- want: limit timeout
-- row: builtins never look at the context
(("a"):rep(250000)):gsub("a*b", "")
