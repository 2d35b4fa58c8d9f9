-- want: script
error("script:1: script:999999999999999999999: fake", 0)
