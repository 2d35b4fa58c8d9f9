-- want: script
return ("%"):format(1)
