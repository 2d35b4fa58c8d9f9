-- want: script
math.random(0)
