-- want: script
-- as: program
do return end
function handle() end
