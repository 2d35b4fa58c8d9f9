-- want: script
pcall(counter.add, "x", 0/0) pcall(counter.add, "x", -1/0) pcall(counter.add, ("x"):rep(200000)) counter.add("x\n{tenant=\"acme\"}")
