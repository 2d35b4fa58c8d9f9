-- want: limit
re.gsub(("a"):rep(200000), "(.*)", ("%0%1"):rep(1000))
