-- want: script
-- row: Go stack overflow in parser, patterns, replacement strings
("x"):find(("()"):rep(100000))
