-- want: limit timeout
-- alloc: 96MiB however many instructions, a call allocates no more than 64 MiB
-- limits: most
while true do pcall(string.find, ("a"):rep(1e6), ("a*"):rep(190) .. "b") end
