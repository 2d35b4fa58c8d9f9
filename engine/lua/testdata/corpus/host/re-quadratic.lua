-- want: limit timeout
re.gsub(("a"):rep(250000), ".*b|a", "") while true do re.gsub(("a"):rep(250000), "a.*?b|a", "") end
