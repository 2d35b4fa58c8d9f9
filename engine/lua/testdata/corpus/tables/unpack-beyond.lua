-- want: script
unpack({}, -1e308, 1e308)
