local function add(refs, seen, kind, name, namespace)
  if name == nil or name == '' or seen[kind .. "/" .. name] then
    return
  end
  seen[kind .. "/" .. name] = true
  local ref = {}
  ref.apiVersion = 'v1'
  ref.kind = kind
  ref.name = name
  ref.namespace = namespace
  refs[#refs + 1] = ref
end

function GetDependencies(desiredObj)
  local refs, seen = {}, {}
  local namespace = desiredObj.metadata.namespace
  local pod = desiredObj.spec.template.spec
  if pod.serviceAccountName ~= nil and pod.serviceAccountName ~= 'default' then
    add(refs, seen, 'ServiceAccount', pod.serviceAccountName, namespace)
  end
  for i = 1, #(pod.volumes or {}) do
    local volume = pod.volumes[i]
    if volume.secret ~= nil then
      add(refs, seen, 'Secret', volume.secret.secretName, namespace)
    elseif volume.configMap ~= nil then
      add(refs, seen, 'ConfigMap', volume.configMap.name, namespace)
    end
  end
  for _, container in ipairs(pod.containers) do
    for _, source in ipairs(container.envFrom or {}) do
      for kind, key in pairs({ Secret = 'secretRef', ConfigMap = 'configMapRef' }) do
        if source[key] ~= nil then
          add(refs, seen, kind, source[key].name, namespace)
        end
      end
    end
  end
  return refs
end
