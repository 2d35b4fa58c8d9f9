-- want: script
-- as: program
--[==[ never closed
function handle() end
