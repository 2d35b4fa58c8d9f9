-- Without the switch there is no such library.
-- want: script
coroutine.create(function() end)
