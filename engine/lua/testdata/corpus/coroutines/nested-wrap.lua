-- The Go stack would grow with each.
-- want: limit script
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
local function f() return coroutine.wrap(f)() end
f()
