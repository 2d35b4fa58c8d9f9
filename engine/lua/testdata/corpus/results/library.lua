-- want: script
return string
