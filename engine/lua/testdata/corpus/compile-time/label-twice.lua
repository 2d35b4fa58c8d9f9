-- want: script fine
-- as: program
function handle() ::a:: ::a:: end
