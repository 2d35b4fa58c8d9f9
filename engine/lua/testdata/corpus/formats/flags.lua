-- want: script
return ("%" .. ("-"):rep(100000) .. "d"):format(1)
