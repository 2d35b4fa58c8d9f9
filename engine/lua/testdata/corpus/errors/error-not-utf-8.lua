-- want: script
error("\255\254")
