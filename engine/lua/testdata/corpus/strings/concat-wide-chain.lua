-- want: limit
-- row: one instruction, gigabytes
-- Each operand is as long as a string may be: the sum is refused before it is made.
local s = ("x"):rep(262144)
return s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s
