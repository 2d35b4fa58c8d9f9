-- want: limit timeout
local t = {}
for i = 1, 1e9 do local k = "k" .. i t[k] = i t[k] = nil end
