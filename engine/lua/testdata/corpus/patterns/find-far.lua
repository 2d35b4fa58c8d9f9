-- want: fine
assert(not ("abc"):find("a", 1e15))
assert(("abc"):find("", -1e15) == 1)
