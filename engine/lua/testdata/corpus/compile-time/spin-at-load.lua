-- want: limit
-- as: program
while true do end
function handle() end
