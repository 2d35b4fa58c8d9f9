-- A builtin in Go cannot be left half-way.
-- want: script
-- coroutines: on
local co = coroutine.wrap(function() table.sort({3, 2, 1}, function() coroutine.yield() end) end)
co()
co()
co()
