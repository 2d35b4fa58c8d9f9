-- want: limit timeout
(("a"):rep(10000)):gsub("[^" .. ("b-c"):rep(3000) .. "]-x", "")
