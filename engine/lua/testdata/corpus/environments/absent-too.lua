-- want: fine
-- row: escapes
assert(not (newproxy or io or debug or channel or _printregs or collectgarbage or print or coroutine or package))
