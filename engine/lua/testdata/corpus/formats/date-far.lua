-- want: fine
return os.date("%c", 1e300), os.date("*t", -1e300), os.time({year = 1e300, month = -1e300, day = 0/0})
