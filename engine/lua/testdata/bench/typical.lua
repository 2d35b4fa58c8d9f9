function handle(request)
  local h = request.headers
  local agent = h["user-agent"] or ""
  local beta = h["x-beta"] == "1"
  local user = string.lower(h["x-user"] or "nobody")
  local upstream = "stable"
  if beta and agent:find("curl", 1, true) then
    upstream = "canary"
  elseif string.sub(h["host"] or "", 1, 4) == "eu1." then
    upstream = "europe"
  end
  return { upstream = upstream, user = user .. "@" .. (h["x-tenant"] or ""), path = request.path }
end
