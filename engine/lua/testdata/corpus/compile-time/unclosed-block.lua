-- want: script
-- as: program
function handle()
  if x then
