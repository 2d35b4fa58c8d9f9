-- want: limit timeout
local function f() return f() end
while true do pcall(f) end
