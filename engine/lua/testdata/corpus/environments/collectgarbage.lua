-- want: script
-- row: escapes
collectgarbage("collect")
