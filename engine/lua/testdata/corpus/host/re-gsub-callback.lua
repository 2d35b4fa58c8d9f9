-- want: limit timeout
while true do re.gsub(("a"):rep(200000), "", function() return "bb" end) end
