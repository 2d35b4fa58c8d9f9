-- want: script
-- row: escapes
channel.make()
