-- want: limit
-- row: tail calls bloat tracebacks
local function f(n) if n == 0 then error("x") end return f(n - 1) end f(100000)
