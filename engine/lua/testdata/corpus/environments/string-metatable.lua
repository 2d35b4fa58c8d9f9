-- want: script
-- row: shared mutable state
getmetatable("").__index = {}
