-- No finalizers, and no weak tables: both would be told by the collector.
-- want: fine
setmetatable({}, {__gc = function() while true do end end, __mode = "kv", __close = 1})
