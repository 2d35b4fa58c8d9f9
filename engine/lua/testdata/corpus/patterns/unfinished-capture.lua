-- want: script
("abc"):find("%1")
