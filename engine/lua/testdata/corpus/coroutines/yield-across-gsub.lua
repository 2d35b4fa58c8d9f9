-- want: script
-- coroutines: on
local co = coroutine.wrap(function() ("abc"):gsub(".", coroutine.yield) end)
co()
co()
