-- want: limit timeout
local i = 0 while true do i = i + 1 re.test(("\195\188"):rep(1000), ("\\pL*"):rep(10) .. i) re.test("x", ("[^[:alpha:]\\pN]"):rep(8) .. i) end
