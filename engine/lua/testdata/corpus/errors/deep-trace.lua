-- want: limit script
local function f(n) if n == 0 then error(("x"):rep(1000)) end return 1 + f(n - 1) end
while true do pcall(f, 240) end
