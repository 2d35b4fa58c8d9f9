-- The inner coroutine resumes the one that waits for it.
-- want: fine
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local outer
outer = coroutine.create(function()
  local inner = coroutine.create(function() return coroutine.resume(outer) end)
  return coroutine.resume(inner)
end)
local ok, inner, resumed = coroutine.resume(outer)
assert(ok and inner and resumed == false)
