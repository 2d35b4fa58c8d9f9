-- want: script
error("the call used up its 1000000 instructions")
