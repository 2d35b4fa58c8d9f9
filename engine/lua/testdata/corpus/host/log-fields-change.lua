-- want: script fine
local t = {} for i = 1, 50 do t["k" .. i] = setmetatable({}, {__tostring = function() t["k" .. i] = nil t["n" .. i] = i return "v" end}) end log.info("x", t)
