-- want: fine script
-- coroutines: on
local co = coroutine.wrap(function() return pcall(coroutine.yield, 1) end)
co()
co()
