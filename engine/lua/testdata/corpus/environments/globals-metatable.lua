-- want: script
setmetatable(_G, {})
