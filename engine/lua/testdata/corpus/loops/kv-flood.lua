-- want: limit timeout
while true do kv.get("secret") end
