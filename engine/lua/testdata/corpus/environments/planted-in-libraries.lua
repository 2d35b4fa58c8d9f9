-- want: fine
-- row: shared mutable state
for _, lib in ipairs({string, table, math, os, json}) do
  assert(not pcall(function() lib.planted = 1 end))
  assert(not pcall(rawset, lib, "planted", 1))
  assert(not pcall(setmetatable, lib, {}))
  assert(not pcall(table.insert, lib, 1))
  assert(not pcall(table.sort, lib))
end
