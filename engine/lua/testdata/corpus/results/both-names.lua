-- want: script
return {[1.5] = 1, ["1.5"] = 2}
