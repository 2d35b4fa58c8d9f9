-- The length is sought from the end of the array.
-- want: limit timeout
local t = {}
t[8000] = 1
t[8000] = nil
while true do local n = #t end
