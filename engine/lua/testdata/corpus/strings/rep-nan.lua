-- want: fine
("a"):rep(0/0)
