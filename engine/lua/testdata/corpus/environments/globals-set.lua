-- The next call must find all of them, and not find what was planted.
-- want: fine
local globals = _G
for k in pairs(globals) do globals[k] = nil end
string, table, math, os, json, tostring, pcall, error, type = nil
planted = "evil"
