-- want: script
-- row: shared mutable state
getmetatable(_G).__index.tostring = 1
