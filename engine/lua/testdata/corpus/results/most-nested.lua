-- want: limit timeout
-- alloc: 256MiB the limits are a hundred times the default
-- limits: most
local t = {}
for i = 1, 1e5 do t = {t} end
return t
