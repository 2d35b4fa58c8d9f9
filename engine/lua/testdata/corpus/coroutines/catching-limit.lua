-- Spent stays spent, through pcall and coroutines alike.
-- want: limit
-- row: coroutines escape the meter, or overflow the Go stack
-- coroutines: on
while true do
  pcall(function()
    local co = coroutine.wrap(function() while true do end end)
    co()
  end)
end
