function InterpretHealth(observedObj)
  if observedObj.status == nil or observedObj.status.observedGeneration ~= observedObj.metadata.generation then
    return false
  end
  if observedObj.spec.replicas ~= nil then
    if observedObj.status.updatedReplicas < observedObj.spec.replicas then
      return false
    end
  end
  return observedObj.status.availableReplicas >= observedObj.status.updatedReplicas
end
