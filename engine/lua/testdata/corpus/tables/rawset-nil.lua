-- want: script
rawset({}, nil, 1)
