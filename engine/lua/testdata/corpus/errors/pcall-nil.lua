-- want: fine
assert(not pcall(nil))
