-- want: fine
-- row: Go stack overflow in parser, patterns, replacement strings
("a"):gsub("a", ("%"):rep(100000))
