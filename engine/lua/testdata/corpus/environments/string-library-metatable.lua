-- want: script
setmetatable(string, {})
