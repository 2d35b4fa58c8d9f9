-- want: limit timeout
local t = {} while true do unpack(t, 1, 7999) end
