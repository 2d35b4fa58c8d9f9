-- want: script
for _, v in ipairs({0, -1, 0/0, 1/0, 1e300, -1e300, 5e-324}) do
  pcall(ratelimit.allow, "x", {rate = v}) pcall(ratelimit.allow, "x", {rate = 1, burst = v}) pcall(ratelimit.allow, "x", {rate = 1, cost = v})
end
ratelimit.allow("x", setmetatable({}, {__index = function() while true do end end}))
