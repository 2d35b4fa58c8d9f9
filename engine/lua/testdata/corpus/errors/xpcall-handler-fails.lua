-- want: limit
while true do xpcall(function() error("a") end, function() error("b") end) end
