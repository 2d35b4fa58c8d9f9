-- Each coroutine makes and resumes another.
-- want: limit script
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local function f()
  local co = coroutine.create(f)
  assert(coroutine.resume(co))
end
f()
