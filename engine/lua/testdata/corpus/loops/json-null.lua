-- want: limit
while json.null do end
