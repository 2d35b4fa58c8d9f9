-- want: limit script
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local t = {}
for i = 1, 1e9 do t[i] = coroutine.create(function() end) end
