-- want: script
error(setmetatable({message = {}}, {__metatable = 1}))
