-- want: script
return ("%y"):format(1)
