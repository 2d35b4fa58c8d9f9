-- want: script
return ("x"):rep(200000) < 1
