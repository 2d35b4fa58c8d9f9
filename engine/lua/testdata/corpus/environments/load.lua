-- want: script
-- row: escapes
loadstring("return 1")()
