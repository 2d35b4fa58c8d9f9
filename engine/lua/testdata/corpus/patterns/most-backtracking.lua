-- want: limit timeout
-- alloc: 256MiB the limits are a hundred times the default
-- limits: most
while true do pcall(string.find, ("a"):rep(1e6), ("a*"):rep(190) .. "b") end
