-- want: script
("abc"):find("%b")
