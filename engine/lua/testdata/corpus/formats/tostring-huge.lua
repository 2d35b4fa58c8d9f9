-- want: limit
return ("%s%s"):format(setmetatable({}, {__tostring = function() return ("x"):rep(262144) end}), "x")
