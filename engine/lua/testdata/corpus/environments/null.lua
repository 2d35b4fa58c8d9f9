-- want: script
json.null.x = 1
