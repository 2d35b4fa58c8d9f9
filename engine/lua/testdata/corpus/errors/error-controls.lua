-- want: script
error("\27[31mred\0\r\n\127")
