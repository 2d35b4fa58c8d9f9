-- Each is compiled; what is kept of them is bounded.
-- want: limit timeout
local i = 0
while true do i = i + 1 re.test("y", "x" .. i .. "[a-z]{50}") end
