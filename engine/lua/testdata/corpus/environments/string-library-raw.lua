-- want: script
-- row: shared mutable state
rawset(string, "format", 1)
