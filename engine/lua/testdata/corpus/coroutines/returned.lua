-- Not a value that JSON can say.
-- want: script fine
-- coroutines: on
return coroutine.create(function() end)
