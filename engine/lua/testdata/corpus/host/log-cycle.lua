-- want: fine
local t = {} t.t = t log.info(t) log.info("x", t) log.info("x", {[t] = t, [log.info] = log.info})
