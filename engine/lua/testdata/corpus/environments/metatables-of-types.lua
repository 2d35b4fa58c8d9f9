-- want: fine
for _, v in ipairs({1, true, print or tostring, json.null}) do
  assert(not getmetatable(v))
  assert(not pcall(setmetatable, v, {}))
end
