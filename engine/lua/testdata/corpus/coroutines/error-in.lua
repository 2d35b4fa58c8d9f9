-- want: script
-- coroutines: on
local co = coroutine.wrap(function() error(("x"):rep(200000)) end)
co()
