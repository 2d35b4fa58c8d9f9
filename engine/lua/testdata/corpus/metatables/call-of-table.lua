-- want: script
local t = {} setmetatable(t, {__call = t}) t()
