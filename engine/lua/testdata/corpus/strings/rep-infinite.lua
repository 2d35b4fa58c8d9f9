-- want: limit
("a"):rep(math.huge)
