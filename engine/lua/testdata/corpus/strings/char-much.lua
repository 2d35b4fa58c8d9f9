-- want: limit
while true do string.char(unpack({}, 1, 0)) string.char(("x"):rep(7000):byte(1, -1)) end
