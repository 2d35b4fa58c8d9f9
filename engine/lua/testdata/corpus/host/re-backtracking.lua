-- want: limit timeout
-- row: builtins never look at the context
re.test(("a"):rep(250000) .. "b", "^((a+)+)+$") re.test(("a"):rep(250000), "((((a*)*)*)*)*b") re.test(("a"):rep(250000), "(.{1,100}){1,2}c")
while true do re.test(("a"):rep(250000), ("(a*)"):rep(32) .. "b") end
