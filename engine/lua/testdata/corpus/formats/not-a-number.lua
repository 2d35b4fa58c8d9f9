-- want: script
return ("%d"):format("x")
