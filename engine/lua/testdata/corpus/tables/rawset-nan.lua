-- want: script
rawset({}, 0/0, 1)
