-- want: limit
return re.gsub(("x"):rep(10000), ".", ("y"):rep(10000))
