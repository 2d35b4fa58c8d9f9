-- want: script
return 0/0
