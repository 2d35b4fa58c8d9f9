-- Hopeless for a backtracking matcher; RE2 reads the subject once for each.
-- want: limit timeout script
local s = ("a"):rep(100000)
while true do re.test(s, "(((((a*)*)*)*)*)*b") end
