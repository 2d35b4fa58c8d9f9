-- want: fine
-- row: escapes
assert(not string.dump)
