-- want: limit timeout
-- row: builtins never look at the context
local s = ("a"):rep(200000) while true do s:find("b", 1, true) end
