-- want: limit timeout
(("a"):rep(200000)):find(("%f[%z]"):rep(10000))
