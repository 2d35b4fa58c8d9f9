-- route: which service answers this request?
--
--   handle({path = "/api/cart"}) returns {upstream = "api"}

function handle(request)
  local path = request.path or "/"
  for _, route in ipairs(config.routes or {}) do
    if path:sub(1, #route.prefix) == route.prefix then
      return { upstream = route.upstream }
    end
  end
  return { upstream = config.default or "web" }
end
