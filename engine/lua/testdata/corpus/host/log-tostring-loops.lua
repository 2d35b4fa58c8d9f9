-- want: limit timeout
log.info(setmetatable({}, {__tostring = function() while true do end end}))
