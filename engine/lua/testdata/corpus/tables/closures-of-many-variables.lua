-- want: limit timeout
local t = {}
while true do
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s = 1
  t[#t + 1] = function() return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s end
end
