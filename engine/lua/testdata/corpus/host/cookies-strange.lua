-- want: fine script
local r = (...) if type(r) ~= "table" or type(r.headers) ~= "table" then return end
r.headers.cookie = setmetatable({r, r.headers, print, json.null, "a=1", [7] = "b=2", n = "c=3"}, {__index = function() error("looked") end})
local c = r.cookies c.a, c[c], c[1] = r, c, json.null
setmetatable(c, {__index = r, __newindex = r}) c.d = 1
setmetatable(r, {__index = c})
for _ in pairs(r.cookies or c) do end
