-- want: fine
for _, k in ipairs({"secret", "acme/secret", "../acme/secret", "/acme/secret", "values/acme/secret", "", "\0", ("k"):rep(10000)}) do
  log.info(tostring(kv.get(k)) .. tostring(kv.json(k)))
end
return kv.keys("", ""), kv.keys("sec"), kv.keys("\255"), kv.keys(("k"):rep(10000))
