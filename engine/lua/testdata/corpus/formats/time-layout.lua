-- want: limit script timeout
while true do time.format(0, ("%c"):rep(10000)) end
