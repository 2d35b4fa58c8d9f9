-- want: fine
-- row: escapes
assert(not (os.execute or os.exit or os.getenv or os.remove or os.rename or os.tmpname or os.setlocale))
