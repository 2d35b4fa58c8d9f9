-- want: script
return ("%s"):format(setmetatable({}, {__tostring = function() return {} end}))
