-- want: script
select(-5, 1)
