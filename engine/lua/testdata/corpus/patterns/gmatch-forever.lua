-- want: limit
while true do for w in ("a"):rep(1000):gmatch("") do end end
