-- want: limit timeout
-- alloc: 96MiB however many instructions, a call allocates no more than 64 MiB
-- limits: most
local t = {}
for i = 1, 1e5 do t = {t} end
return t
