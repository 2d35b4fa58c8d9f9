-- want: limit
-- row: string growth
("a"):rep(1e10)
