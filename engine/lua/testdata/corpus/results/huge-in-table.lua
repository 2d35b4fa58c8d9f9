-- want: limit
-- row: hostile results
return {a = {b = {c = ("x"):rep(70000)}}}
