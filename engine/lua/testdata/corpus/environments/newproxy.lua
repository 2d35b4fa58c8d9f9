-- want: script
-- row: escapes
newproxy(true)
