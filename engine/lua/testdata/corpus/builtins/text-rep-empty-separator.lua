-- want: limit timeout
while true do local a, b = (""):rep(1e15, ""), ("x"):rep(200000, "") end
