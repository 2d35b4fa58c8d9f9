-- want: limit
-- row: tail calls bloat tracebacks
local function f() return f() end f()
