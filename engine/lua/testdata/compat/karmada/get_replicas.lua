function GetReplicas(obj)
  replica = obj.spec.replicas
  if replica == nil then
    replica = 1
  end
  local pod = obj.spec.template and obj.spec.template.spec
  if pod == nil then
    return replica
  end
  requires = {}
  requires.resourceRequest = {}
  for _, container in ipairs(pod.containers) do
    if container.resources ~= nil and container.resources.requests ~= nil then
      for name, quantity in pairs(container.resources.requests) do
        requires.resourceRequest[name] = quantity
      end
    end
  end
  if pod.nodeSelector ~= nil or pod.tolerations ~= nil then
    requires.nodeClaim = {}
    requires.nodeClaim.nodeSelector = pod.nodeSelector
    requires.nodeClaim.tolerations = pod.tolerations
  end
  return replica, requires
end
