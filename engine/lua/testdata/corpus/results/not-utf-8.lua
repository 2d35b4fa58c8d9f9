-- want: script
return "\255"
