function InterpretStatus(observedObj)
  local status = {}
  if observedObj == nil or observedObj.status == nil then
    return status
  end
  local wanted = { "replicas", "readyReplicas", "conditions", "loadBalancer" }
  for _, name in ipairs(wanted) do
    status[name] = observedObj.status[name]
  end
  if observedObj.metadata ~= nil then
    status.generation = observedObj.metadata.generation
    if observedObj.metadata.annotations ~= nil then
      local template = tonumber(observedObj.metadata.annotations["resourcetemplate.karmada.io/generation"])
      if template ~= nil then
        status.resourceTemplateGeneration = template
      end
    end
  end
  return status
end
