-- want: script
pcall(function() pcall(function() pcall(error, "a") error("b") end) error("c") end)
error("d")
