-- Ranges in any case take 8 ms each to compile.
-- want: limit timeout
local i = 0
while true do
  i = i + 1
  pcall(re.test, "x", "(?i)[B-\\x{1e942}][C-\\x{1e941}]" .. i)
  pcall(re.test, "x", "(?s-i:a)(?mi)" .. ("[B-\\x{1e942}]"):rep(60) .. i)
  pcall(re.test, "x", "(?im)[" .. ("B-\240\158\165\130"):rep(60) .. "]" .. i)
end
