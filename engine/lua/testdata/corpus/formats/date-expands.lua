-- want: limit
os.date(("%c"):rep(100000))
