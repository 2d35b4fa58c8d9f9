-- want: script
-- as: program
function handle() goto inside do ::inside:: end end
