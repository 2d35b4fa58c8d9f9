-- Registers that were never set might hold what an earlier call left.
-- want: fine
local function f(...) local a, b, c, d, e, f, g, h return a, b, c, d, e, f, g, h, ... end
local t = {f()}
for i = 1, 8 do assert(t[i] == nil) end
return f()
