local replicas = tonumber(actionParams["replicas"])
if not replicas then
  error("invalid number: " .. actionParams["replicas"], 0)
end
obj.spec.replicas = replicas
for i, env in ipairs(obj.spec.env or {}) do
  if env.name == "WORKERS" then
    env.value = tostring(replicas * 2)
  end
end
return obj
