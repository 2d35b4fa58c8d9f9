-- want: limit script
-- row: hostile results
local t = {}
t.t = t
return t
