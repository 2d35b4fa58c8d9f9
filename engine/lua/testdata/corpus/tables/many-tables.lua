-- want: limit timeout
local ts = {} for i = 1, 1e9 do ts[i] = {x = {}} end
