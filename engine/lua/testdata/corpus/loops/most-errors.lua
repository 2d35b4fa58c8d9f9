-- want: limit timeout
-- alloc: 96MiB however many instructions, a call allocates no more than 64 MiB
-- limits: most
local function f(n) pcall(f, n + 1) end
while true do f(1) end
