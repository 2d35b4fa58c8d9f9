function AggregateStatus(desiredObj, statusItems)
  if statusItems == nil then
    return desiredObj
  end
  if desiredObj.status == nil then
    desiredObj.status = {}
  end
  local generation = desiredObj.metadata.generation or 0
  local observed = desiredObj.status.observedGeneration or 0
  if #statusItems == 0 then
    desiredObj.status.observedGeneration = generation
    desiredObj.status.replicas = 0
    desiredObj.status.conditions = {}
    return desiredObj
  end
  local replicas, ready, current = 0, 0, true
  local conditions = {}
  for i = 1, #statusItems do
    local status = statusItems[i].status
    if status ~= nil then
      replicas = replicas + (status.replicas or 0)
      ready = ready + (status.readyReplicas or 0)
      local seen = status.resourceTemplateGeneration or 0
      if seen ~= generation or (status.generation or 0) ~= (status.observedGeneration or 0) then
        current = false
      end
      for _, c in ipairs(status.conditions or {}) do
        c.message = statusItems[i].clusterName .. "=" .. (c.message or "")
        table.insert(conditions, c)
      end
    else
      current = false
    end
  end
  if current then
    desiredObj.status.observedGeneration = generation
  else
    desiredObj.status.observedGeneration = observed
  end
  desiredObj.status.replicas = replicas
  desiredObj.status.readyReplicas = ready
  if #conditions > 0 then
    desiredObj.status.conditions = conditions
  end
  return desiredObj
end
