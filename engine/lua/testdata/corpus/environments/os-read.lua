-- want: fine
-- row: escapes
assert(not pcall(function() return os.getenv("HOME") end))
assert(not (io or package or debug))
return os.time(), os.clock(), os.date()
