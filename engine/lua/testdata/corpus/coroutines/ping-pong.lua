-- want: limit script timeout
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local a, b
a = coroutine.create(function() while true do coroutine.resume(b) coroutine.yield() end end)
b = coroutine.create(function() while true do coroutine.resume(a) coroutine.yield() end end)
while true do coroutine.resume(a) end
