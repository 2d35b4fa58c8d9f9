-- want: fine
-- row: shared mutable state
local evil = function() return "evil" end
tostring, type, pairs, ipairs, select, next, error, assert, unpack = evil, evil, evil, evil, evil, evil, evil, evil, evil
string, table, math, json = {format = evil, lower = evil}, {concat = evil, sort = evil}, {}, {encode = evil}
_G.handle, _G.config, _G.string = evil, evil, evil
