-- want: limit
repeat until math.random() > 1
