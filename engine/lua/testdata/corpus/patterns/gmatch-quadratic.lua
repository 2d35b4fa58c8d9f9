-- want: limit timeout
-- row: builtins never look at the context
for w in (("a"):rep(250000)):gmatch("a-b") do end
