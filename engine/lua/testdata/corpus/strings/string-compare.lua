-- want: limit timeout
local a, b = ("a"):rep(200000), ("a"):rep(200000) .. "b" while a < b do end
