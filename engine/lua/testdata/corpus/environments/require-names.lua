-- want: fine
-- row: escapes
for _, name in ipairs({"io", "debug", "package", "ffi", "../x", "/etc/passwd", "_G", "", ("x"):rep(100000)}) do
  assert(not pcall(require, name))
end
assert(not pcall(function() require("os").execute("true") end))
