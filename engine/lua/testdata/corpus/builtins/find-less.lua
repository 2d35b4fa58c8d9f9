-- gopher-lua compares byte by byte.
-- want: limit timeout
local s = ("x"):rep(200000) local a, b = s .. "a", s .. "b" while a < b do end
