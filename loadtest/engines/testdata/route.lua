-- The twin of the examples with the name route.
local function starts_with(text, prefix)
  return text:sub(1, #prefix) == prefix
end

local function choose(request)
  local path = request.path or ""
  for _, route in ipairs(config.routes) do
    if starts_with(path, route.prefix) then
      return route.upstream
    end
  end
  if request.headers and get_request_header("x-beta") == "yes" then
    return config.beta
  end
  return config.default
end

function handle(request)
  local upstream = choose(request)
  return { upstream = kv.get("upstreams/" .. upstream) or upstream }
end
