-- The memory limit of gopher-lua ends the process; nothing of it is within reach.
-- want: script
-- row: L.SetMx
debug.setmx(1)
