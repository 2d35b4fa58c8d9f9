-- want: limit timeout
local s = ("\240\159\152\128"):rep(50000) while true do json.encode(s) end
