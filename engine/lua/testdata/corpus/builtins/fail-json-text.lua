-- want: limit timeout
local s = '["' .. ("\\n"):rep(100000) .. '",x' while true do pcall(json.decode, s) end
