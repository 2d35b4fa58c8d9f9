-- want: fine
config.planted = "evil"
config.secret = "evil"
config = {planted = "evil"}
