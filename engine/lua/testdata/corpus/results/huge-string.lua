-- want: limit
-- row: hostile results
return ("x"):rep(100000)
