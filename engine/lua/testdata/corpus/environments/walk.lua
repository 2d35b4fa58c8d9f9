-- Everything within reach, as text.
-- want: fine
-- row: escapes
local seen, found = {}, {}
local function walk(v, path, depth)
  if type(v) ~= "table" or seen[v] or depth > 6 then return end
  seen[v] = true
  pcall(function() for k, x in pairs(v) do found[#found + 1] = path .. tostring(k) walk(x, path .. tostring(k) .. ".", depth + 1) end end)
  pcall(walk, getmetatable(v), path .. "meta.", depth + 1)
end
walk(_G, "", 0)
for _, v in ipairs({"", 1, true, string, math.abs, json.null, json.array()}) do pcall(walk, getmetatable(v), "of ", 0) end
return table.concat(found, " ")
