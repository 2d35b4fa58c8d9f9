-- want: limit timeout
local s = ("x"):rep(200000) local m = setmetatable({}, {__concat = function(a, b) return "y" end}) while true do local x = s .. m .. s end
