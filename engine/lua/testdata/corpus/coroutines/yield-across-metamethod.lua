-- want: fine script
-- coroutines: on
local t = setmetatable({}, {__index = function() return coroutine.yield() end})
local co = coroutine.wrap(function() return t.x end)
co()
co()
