-- want: script
setmetatable(json.null, {})
