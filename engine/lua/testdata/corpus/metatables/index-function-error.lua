-- want: script
return setmetatable({}, {__index = function() error({}) end}).x
