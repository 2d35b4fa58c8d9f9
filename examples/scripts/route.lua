-- route: which service answers this request?
--
--   handle({"path": "/api/cart"})  ->  {"upstream": "cart"}
--
-- `config` is spec.config of route.yaml: change a route there, not here.

local function starts_with(text, prefix)
  return text:sub(1, #prefix) == prefix
end

function handle(request)
  local path = request.path or "/"
  local headers = request.headers or {}

  -- The first prefix that fits wins, so the longer ones come first.
  for _, route in ipairs(config.routes) do
    if starts_with(path, route.prefix) then
      return { upstream = route.upstream }
    end
  end

  if headers["x-beta"] == "yes" then
    return { upstream = config.beta }
  end
  return { upstream = config.default }
end
