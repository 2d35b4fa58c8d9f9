-- want: fine
assert(not pcall(setmetatable, setmetatable({}, {__metatable = 1}), {}))
assert(getmetatable("") == false)
