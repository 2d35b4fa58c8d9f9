-- Much that lives, and much that is dropped: the collector takes a quarter of all
-- processors to go through it, whoever's calls run there.
-- want: limit timeout
-- only: process the collector is everybody's
-- limits: most
local list
for i = 1, 200000 do list = {next = list, name = "n" .. i} end
while true do local garbage = {{}, {}, {}} end
