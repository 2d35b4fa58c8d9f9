-- want: script
-- row: hostile results
return function() end
