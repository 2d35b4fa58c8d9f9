-- want: script
table.concat({{}})
