-- want: limit script
return crypto.random(1e15)
