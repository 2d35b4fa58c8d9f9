-- One instruction looks for each variable in a list of all that are open.
-- want: limit timeout
while true do
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t = 1
  local fn = function() return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t end
end
