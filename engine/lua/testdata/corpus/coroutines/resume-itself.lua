-- A coroutine resumes itself while it runs, and again when it is dead.
-- want: limit script
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local co
co = coroutine.create(function() return coroutine.resume(co) end)
while true do
  coroutine.resume(co)
  assert(not coroutine.resume(co))
end
