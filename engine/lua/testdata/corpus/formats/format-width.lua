-- want: script
("%99999999d"):format(1)
