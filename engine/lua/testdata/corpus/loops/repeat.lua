-- want: limit
repeat until false
