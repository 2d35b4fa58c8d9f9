-- want: script
json.decode(("["):rep(100000))
