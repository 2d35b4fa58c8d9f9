-- want: limit script timeout
-- coroutines: on
local co = coroutine.wrap(function(...) local a = {...} while true do a = {coroutine.yield(unpack(a))} end end)
while true do co(unpack({}, 1, 7999)) end
