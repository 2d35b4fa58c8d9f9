-- want: script
-- coroutines: on
local co = coroutine.wrap(function() error({}) end)
co()
