-- A queue that is emptied by next.
-- want: limit timeout
local t, first = {}, 1 for i = 1, 1e9 do t["k" .. i] = i if i > 100 then t["k" .. first] = nil first = first + 1 next(t) end end
