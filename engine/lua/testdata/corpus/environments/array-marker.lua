-- want: script
getmetatable(json.array()).x = 1
