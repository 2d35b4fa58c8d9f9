-- want: limit timeout
local i = 0 while true do i = i + 1 ratelimit.allow(("k"):rep(1000) .. i, {rate = 1e-9, burst = 1e9}) end
