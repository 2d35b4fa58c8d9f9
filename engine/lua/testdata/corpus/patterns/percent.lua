-- want: script
-- row: Go stack overflow in parser, patterns, replacement strings
("a"):gsub("a", ("%"):rep(100001))
