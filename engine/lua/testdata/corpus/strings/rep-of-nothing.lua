-- want: fine
(""):rep(1e15)
