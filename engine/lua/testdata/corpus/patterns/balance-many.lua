-- want: limit timeout
(("("):rep(2000) .. (")"):rep(1000)):gsub("%b()", "")
