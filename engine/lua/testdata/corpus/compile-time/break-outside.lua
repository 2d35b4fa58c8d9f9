-- want: script
-- as: program
function handle() break end
