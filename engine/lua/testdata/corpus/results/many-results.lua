-- want: fine limit
return unpack({}, 1, 7999)
