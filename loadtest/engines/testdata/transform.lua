-- Sums up the items of an order that are wanted at all.
function handle(order)
  local lines, total = {}, 0
  for _, item in ipairs(order.items) do
    if item.quantity > 0 then
      local amount = item.price * item.quantity
      total = total + amount
      lines[#lines + 1] = { name = item.name, amount = amount }
    end
  end
  return { customer = order.customer, lines = lines, total = total }
end
