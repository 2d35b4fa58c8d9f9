-- total: adds the sums to an order.
--
--   handle({items = {{price = 10, count = 2}}}) returns {net = 20, gross = 24}

function handle(order)
  local net = 0
  for _, item in ipairs(order.items or {}) do
    net = net + item.price * item.count
  end
  return { net = net, gross = net * (100 + config.taxPercent) / 100 }
end
