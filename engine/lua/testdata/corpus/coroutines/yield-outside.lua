-- want: script
-- coroutines: on
coroutine.yield(1)
