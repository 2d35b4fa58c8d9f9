-- want: script fine limit
log.info({}, nil, function() end, setmetatable({}, {__tostring = function() error({}) end}))
