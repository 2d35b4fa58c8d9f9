-- The compiler's own marker, written by a script.
-- want: script
-- as: program
function handle() return ("\0operator ..")("a", "b") end
