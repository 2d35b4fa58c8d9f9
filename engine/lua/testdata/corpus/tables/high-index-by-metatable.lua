-- The table that grows is not the one that is assigned to.
-- want: limit
-- row: one instruction, gigabytes
local ts = {}
for i = 1, 1e9 do
  local t = {}
  setmetatable({}, {__newindex = t})[8191] = 1
  ts[i] = t
end
