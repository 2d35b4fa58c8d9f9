-- want: script
-- as: program
function handle() return ... end
