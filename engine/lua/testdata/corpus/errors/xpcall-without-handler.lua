-- want: script
xpcall(function() end)
