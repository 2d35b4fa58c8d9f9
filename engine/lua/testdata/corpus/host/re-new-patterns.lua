-- want: limit timeout
local i = 0 while true do i = i + 1 re.test("x", ("[a-z]?"):rep(150) .. i) pcall(re.test, "x", ("("):rep(1000) .. i) end
