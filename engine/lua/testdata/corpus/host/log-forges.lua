-- want: fine
log.info("ok\nlevel=ERROR msg=\"a script says\" tenant=acme\r\27[1A", {tenant = "acme", ["a b\n"] = "c\nd"})
