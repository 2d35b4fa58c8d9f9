-- want: script fine
-- What \Q begins ends with the pattern, wherever the search begins.
local found = re.find("xabc", "\\Qabc", 2)
if found ~= 2 then error("found at " .. tostring(found)) end
re.gsub("a(b(c", "\\Q(", "")
re.match("xx(?i)", "\\Q(?i)", 2)
