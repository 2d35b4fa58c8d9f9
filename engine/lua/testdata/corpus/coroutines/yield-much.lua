-- want: limit script
-- coroutines: on
local co = coroutine.wrap(function() while true do coroutine.yield(unpack({}, 1, 7999)) end end)
while true do co() end
