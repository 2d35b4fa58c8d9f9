function Retain(desiredObj, observedObj)
  desiredObj.spec.paused = observedObj.spec.paused
  if observedObj.metadata.annotations ~= nil then
    if desiredObj.metadata.annotations == nil then
      desiredObj.metadata.annotations = {}
    end
    for key, value in pairs(observedObj.metadata.annotations) do
      if string.find(key, "^member%.example%.com/") and desiredObj.metadata.annotations[key] == nil then
        desiredObj.metadata.annotations[key] = value
      end
    end
  end
  if observedObj.spec.clusterIP ~= nil and observedObj.spec.clusterIP ~= "" then
    desiredObj.spec.clusterIP = observedObj.spec.clusterIP
  end
  return desiredObj
end
