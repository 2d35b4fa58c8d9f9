-- want: script
return setmetatable({}, {__lt = function() return true end}) < 1
