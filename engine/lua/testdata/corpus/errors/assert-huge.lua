-- want: script
assert(false, ("x"):rep(200000))
