-- None is kept; as many are made.
-- want: limit script
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
for i = 1, 1e9 do coroutine.wrap(function() coroutine.yield() end)() end
