-- Each byte becomes six.
-- want: limit
return ("\1"):rep(20000)
