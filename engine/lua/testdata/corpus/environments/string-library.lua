-- want: script
-- row: shared mutable state
string.format = function() return "evil" end
