function split(input, delimiter)
    local arr = {}
    string.gsub(input, '[^' .. delimiter .. ']+', function(w) table.insert(arr, w) end)
    return arr
end

annotations = {}
if ( obj.annotations )
then
    annotations = obj.annotations
end
annotations["gateway.example.com/weight"] = nil
annotations["gateway.example.com/rules"] = nil
if ( obj.weight ~= "-1" )
then
    annotations["gateway.example.com/weight"] = "stable:" .. (100 - tonumber(obj.weight)) .. ",canary:" .. obj.weight
end
if ( obj.matches )
then
    local rules = {}
    for i = 1, #obj.matches do
        for j, header in ipairs(obj.matches[i].headers or {}) do
            local values = split(header.value, ",")
            rules[#rules + 1] = header.name:lower() .. "=" .. table.concat(values, "|")
        end
    end
    annotations["gateway.example.com/rules"] = table.concat(rules, ";")
end
return annotations
