-- want: limit script
-- row: hostile results
local t = {}
for i = 1, 30 do t = {t, t} end
return t
