-- want: limit
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local co = coroutine.create(function() while true do end end)
while true do
  local ok = coroutine.resume(co)
  if coroutine.status(co) == "dead" then co = coroutine.create(function() while true do end end) end
end
