-- want: limit
(""):rep(1e10, "xxxxxxxx")
