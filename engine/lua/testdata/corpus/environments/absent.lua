-- want: fine
-- row: escapes
assert(not (getfenv or setfenv or load or loadstring or loadfile or dofile or module))
