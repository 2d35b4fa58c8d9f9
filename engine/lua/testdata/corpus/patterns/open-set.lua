-- want: script
-- row: Go stack overflow in parser, patterns, replacement strings
("a"):find(("["):rep(100000))
