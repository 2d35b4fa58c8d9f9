-- want: limit script
return (("%d"):rep(8000)):format(unpack({}, 1, 7999))
