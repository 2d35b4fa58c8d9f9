-- The health of a Script, a LuaScript or a ScriptTenant, for Argo CD. The conditions are those of
-- kstatus: Stalled is Degraded, Reconciling is Progressing, Ready is Healthy.
local status = obj.status or {}
local hs = { status = "Progressing", message = "Waiting for the operator to reconcile this generation" }
if status.observedGeneration ~= obj.metadata.generation then
  return hs
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local ready = conditions.Ready
if ready ~= nil then
  hs.message = ready.message
end
if conditions.Stalled ~= nil and conditions.Stalled.status == "True" then
  hs.status = "Degraded"
  hs.message = conditions.Stalled.message
elseif ready ~= nil and (ready.reason == "Held" or ready.reason == "Frozen") then
  hs.status = "Suspended" -- somebody holds the script at another version, or froze the registry
elseif ready ~= nil and ready.status == "True" then
  hs.status = "Healthy"
end
return hs
