-- want: script
return ("%s%s"):format(1)
