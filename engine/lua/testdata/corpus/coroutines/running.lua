-- want: fine
-- coroutines: on
coroutine.wrap(function() return coroutine.running() end)()
coroutine.running()
