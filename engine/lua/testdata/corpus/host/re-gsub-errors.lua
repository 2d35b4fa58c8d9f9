-- want: limit timeout
while true do pcall(re.gsub, ("a"):rep(100000), "a*", function() error(("x"):rep(10000)) end) end
