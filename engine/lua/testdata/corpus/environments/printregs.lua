-- want: script
-- row: escapes
_printregs()
