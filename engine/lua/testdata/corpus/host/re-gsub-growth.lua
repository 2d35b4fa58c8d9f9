-- want: limit
local s = "aa" while true do s = re.gsub(s, "a", "aaaaaaaaaa") end
