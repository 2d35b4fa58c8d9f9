-- want: script
return {a = {b = tostring}}
