-- want: script
-- as: program
function handle() end
handle = nil
