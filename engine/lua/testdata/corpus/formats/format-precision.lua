-- want: script
("%.99999999f"):format(1)
