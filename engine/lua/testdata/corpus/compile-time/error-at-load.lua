-- want: script
-- as: program
error("at load")
function handle() end
