-- Keys of the other tenant under any name that might lead there.
-- want: fine script
local found = {}
for _, key in ipairs({"secret", "acme/secret", "../acme/secret", "/values/acme/secret", "", "acme"}) do
  local ok, value = pcall(kv.get, key)
  if ok then found[#found + 1] = value end
  ok, value = pcall(kv.json, key)
  if ok then found[#found + 1] = value end
  ok, value = pcall(kv.keys, key)
  if ok then found[#found + 1] = value end
end
return found
