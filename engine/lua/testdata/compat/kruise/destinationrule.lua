local spec = obj.data.spec
local canary = {}
canary.labels = {}
canary.name = "canary"
local podLabelKey = "istio.service.tag"
if obj.podLabels and next(obj.podLabels) then
    for key, value in pairs(obj.podLabels) do
        canary.labels[key] = value
    end
else
    canary.labels[podLabelKey] = "gray"
end
if not spec.subsets then
    spec.subsets = {}
end
local found = false
for i, subset in ipairs(spec.subsets) do
    if subset.name == canary.name then
        spec.subsets[i] = canary
        found = true
        break
    end
end
if not found then
    table.insert(spec.subsets, canary)
end
return obj.data
