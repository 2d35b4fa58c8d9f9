-- want: limit timeout
-- only: process the heap is everybody's
-- limits: most
local kept = {}
while true do kept[#kept + 1] = ("x"):rep(4000000) .. #kept end
