-- want: script
-- as: program
handle = 5
