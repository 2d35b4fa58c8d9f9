-- want: script
error({message = ("x"):rep(200000)})
