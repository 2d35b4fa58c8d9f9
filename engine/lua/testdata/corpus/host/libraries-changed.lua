-- want: fine
for _, lib in pairs({log, base64, re, crypto, time, kv, counter, ratelimit, scriptorium, json}) do
  pcall(function() lib.planted = "evil" end) pcall(rawset, lib, "planted", "evil") pcall(setmetatable, lib, {}) pcall(table.insert, lib, "evil")
  for k in pairs(lib) do pcall(function() lib[k] = "evil" end) end
end
log, kv, get_request_header, scriptorium = "evil", "evil", "evil", "evil"
