-- want: script
-- as: program
function other() end
