-- want: limit timeout
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local co = coroutine.wrap(function() while true do coroutine.yield() end end)
while true do co() end
