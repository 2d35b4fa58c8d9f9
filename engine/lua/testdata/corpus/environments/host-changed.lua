-- want: fine script
-- row: shared mutable state
for _, lib in ipairs({kv, log, re, crypto, time, base64, counter, ratelimit, scriptorium}) do
  assert(not pcall(function() lib.get = 1 end))
  assert(not pcall(rawset, lib, "get", 1))
  assert(not pcall(setmetatable, lib, {}))
end
