-- want: limit timeout
(("a"):rep(10000)):find("[" .. ("b"):rep(10000) .. "]")
