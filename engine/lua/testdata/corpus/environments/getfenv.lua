-- want: script
-- row: escapes
getfenv(print).evil = 1
