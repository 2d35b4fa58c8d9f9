-- What fails counts as what does not.
-- want: limit timeout
local s = ("x"):rep(200000) while true do pcall(string.format, "%s%d", s, {}) end
