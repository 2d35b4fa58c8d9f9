-- want: script
for _, lib in pairs({string, table, math, os, json}) do lib.evil = 1 end
