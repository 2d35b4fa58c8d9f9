-- What the compiler puts in place of operators has no name.
-- want: fine
local names = {"operator ..", "operator #", "script", "(temporary 0)"}
names[#names + 1], names[#names + 2] = "\0" .. names[1], "\0" .. names[2]
names[#names + 1], names[#names + 2] = "\0" .. names[1], "\0" .. names[2]
for _, name in ipairs(names) do assert(_G[name] == nil) end
