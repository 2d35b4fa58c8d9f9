-- want: script
-- as: program
function handle() goto nowhere end
