-- want: script
-- as: program
function handle()
  return "abc
end
