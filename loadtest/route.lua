-- A typical routing decision: five fields come in, a small table goes out.
-- Redis runs the same function between cjson.decode and cjson.encode.
function handle(request)
  local upstream = "web"
  if request.path:sub(1, 5) == "/api/" then
    upstream = "api-" .. request.country
  end
  return {
    upstream = upstream,
    status = 200,
    headers = { ["x-user"] = request.user },
  }
end
