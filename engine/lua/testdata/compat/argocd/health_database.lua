local health_status = {}

local function ready(obj)
  local wanted = obj.spec.instances or 1
  local have = 0
  if obj.status and obj.status.readyInstances then
    have = obj.status.readyInstances
  end
  return have, wanted
end

if obj.metadata.annotations ~= nil and obj.metadata.annotations["example.com/hibernate"] == "on" then
  health_status.status = "Suspended"
  health_status.message = "The cluster sleeps"
  return health_status
end

local phases = {
  ["Cluster in healthy state"] = "Healthy",
  ["Setting up primary"] = "Progressing",
  ["Not enough disk space"] = "Degraded",
}

if obj.status ~= nil and obj.status.phase ~= nil then
  local have, wanted = ready(obj)
  health_status.status = phases[obj.status.phase] or "Unknown"
  health_status.message = string.format("%s (%d/%d)", obj.status.phase, have, wanted)
  return health_status
end

health_status.status = "Progressing"
return health_status
