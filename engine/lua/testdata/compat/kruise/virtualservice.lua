spec = obj.data.spec

if obj.canaryWeight == -1 then
    obj.canaryWeight = 100
    obj.stableWeight = 0
end

function FindRules(spec, protocol)
    local rules = {}
    if (protocol == "http") then
        if (spec.http ~= nil) then
            for _, http in ipairs(spec.http) do
                table.insert(rules, http)
            end
        end
    elseif (protocol == "tcp") then
        if (spec.tcp ~= nil) then
            for _, http in ipairs(spec.tcp) do
                table.insert(rules, http)
            end
        end
    end
    return rules
end

-- routes to the stable service, without those to the canary
function FindMatchingRoute(rule, service)
    for i, route in ipairs(rule.route or {}) do
        if route.destination.host == service then
            return i
        end
    end
end

function DeepCopy(original)
    local copy
    if type(original) == 'table' then
        copy = {}
        for key, value in pairs(original) do
            copy[key] = DeepCopy(value)
        end
    else
        copy = original
    end
    return copy
end

function CalculateWeight(route, stableWeight, n)
    local weight
    if (route.weight) then
        weight = math.floor(route.weight * stableWeight / 100)
    else
        weight = math.floor(stableWeight / n)
    end
    return weight
end

function GenerateMatches(spec, matches)
    for _, match in ipairs(matches) do
        local route = { match = {}, route = { { destination = { host = obj.canaryService } } } }
        local vsMatch = { headers = {} }
        for _, header in ipairs(match.headers) do
            local matchType = header.type == "RegularExpression" and "regex" or "exact"
            vsMatch.headers[header.name] = { [matchType] = header.value }
        end
        table.insert(route.match, vsMatch)
        table.insert(spec.http, 1, route)
    end
end

function GenerateRoutes(spec, protocol)
    for _, rule in ipairs(FindRules(spec, protocol)) do
        local at = FindMatchingRoute(rule, obj.stableService)
        if at then
            local canary = DeepCopy(rule.route[at])
            canary.destination.host = obj.canaryService
            canary.weight = obj.canaryWeight
            rule.route[at].weight = CalculateWeight(rule.route[at], obj.stableWeight, #rule.route)
            table.insert(rule.route, canary)
        end
    end
end

if (obj.matches and next(obj.matches) ~= nil) then
    GenerateMatches(spec, obj.matches)
else
    GenerateRoutes(spec, "http")
    GenerateRoutes(spec, "tcp")
end
return obj.data
