-- want: limit timeout
local function f(n) if n == 0 then error("x") end f(n - 1) end while true do pcall(f, 200) end
