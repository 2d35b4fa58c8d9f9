-- The agent limits the rate; the call pays for each line.
-- want: limit timeout
while true do log.info(("x"):rep(10000)) end
