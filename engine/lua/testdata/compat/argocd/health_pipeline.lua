hs = { status = "Progressing", message = "Waiting for the first run" }

function count(list, key, value)
  local n = 0
  for _, item in ipairs(list or {}) do
    if item[key] == value then
      n = n + 1
    end
  end
  return n
end

if obj.status == nil then
  return hs
end

if obj.metadata.generation ~= nil and obj.status.observedGeneration ~= nil
    and obj.status.observedGeneration < obj.metadata.generation then
  hs.message = "Waiting for the controller to see generation " .. obj.metadata.generation
  return hs
end

failed = count(obj.status.steps, "state", "Failed")
if failed > 0 then
  local names = {}
  for _, step in ipairs(obj.status.steps) do
    if step.state == "Failed" then
      table.insert(names, step.name)
    end
  end
  table.sort(names)
  hs.status = "Degraded"
  hs.message = failed .. " steps failed: " .. table.concat(names, ", ")
elseif count(obj.status.steps, "state", "Done") == table.getn(obj.status.steps or {}) then
  hs.status = "Healthy"
  hs.message = ""
end

return hs
