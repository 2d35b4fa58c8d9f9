actions = {}
actions["restart"] = {["disabled"] = false}

local paused = false
if obj.status ~= nil and obj.status.pauseConditions ~= nil then
  paused = table.getn(obj.status.pauseConditions) > 0
elseif obj.spec.paused ~= nil then
  paused = obj.spec.paused
end
actions["resume"] = {["disabled"] = not(paused)}

local fullyPromoted = obj.status.currentPodHash == obj.status.stableRS
actions["abort"] = {["disabled"] = fullyPromoted or obj.status.abort}
actions["retry"] = {["disabled"] = not(obj.status.abort)}

actions["skip-step"] = {["disabled"] = true}
if obj.spec.strategy.canary ~= nil and obj.spec.strategy.canary.steps ~= nil and not fullyPromoted then
  if obj.status.currentStepIndex < table.getn(obj.spec.strategy.canary.steps) then
    actions["skip-step"]["disabled"] = false
  end
end
return actions
