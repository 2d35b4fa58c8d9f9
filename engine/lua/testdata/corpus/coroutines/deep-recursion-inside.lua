-- want: limit script
-- coroutines: on
local co = coroutine.wrap(function() local function f() f() end f() end)
co()
