-- want: limit timeout
-- alloc: 256MiB the limits are a hundred times the default
-- limits: most
local function f(n) pcall(f, n + 1) end
while true do f(1) end
