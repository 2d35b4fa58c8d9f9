-- want: fine
-- row: one instruction, gigabytes
local t = {} t[67108863] = 1 return #t
