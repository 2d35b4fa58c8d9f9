-- With the highest limits a call may hold hundreds of megabytes: under a memory limit of
-- the whole process, other tenants' calls die with it.
-- want: limit timeout
-- only: process the heap is everybody's
-- limits: most
local kept = {}
while true do
  pcall(function() while true do kept[#kept + 1] = {{}, {}, {}} end end)
end
