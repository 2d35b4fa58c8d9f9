-- want: script
error({})
