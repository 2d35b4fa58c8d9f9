-- want: script
-- as: program
function handle() return 0x, 1e, 0x.p1 end
