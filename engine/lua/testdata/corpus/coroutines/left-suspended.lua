-- What is never finished must not stay.
-- want: fine
-- coroutines: on
local kept = {}
for i = 1, 10 do
  kept[i] = coroutine.create(function() local s = ("x"):rep(1000) coroutine.yield(s) error("never") end)
  coroutine.resume(kept[i])
end
