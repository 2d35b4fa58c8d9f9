-- want: fine
-- row: shared mutable state
assert(not pcall(function() ("").planted = 1 end))
assert(not pcall(function() local s = "" s.format = 1 end))
assert(("").planted == nil)
