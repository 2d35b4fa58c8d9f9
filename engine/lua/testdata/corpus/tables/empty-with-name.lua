-- The first name in a table costs two kilobytes in gopher-lua.
-- want: limit
local t = {}
for i = 1, 1e9 do local u = {} u.x = 1 t[i] = u end
