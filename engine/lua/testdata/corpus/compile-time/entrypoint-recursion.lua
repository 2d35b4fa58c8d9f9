-- want: limit
-- row: tail calls bloat tracebacks
-- as: program
function handle() return handle() end
