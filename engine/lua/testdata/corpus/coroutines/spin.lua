-- want: limit
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local co = coroutine.create(function() while true do end end)
coroutine.resume(co)
