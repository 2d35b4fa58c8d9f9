-- An error leaves variables open that a later call must not meet.
-- want: script
-- row: shared mutable state
local secret = "left behind"
kept = function() return secret end
error("now")
