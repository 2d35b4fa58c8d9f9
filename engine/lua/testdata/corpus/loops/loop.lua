-- want: limit
while true do end
