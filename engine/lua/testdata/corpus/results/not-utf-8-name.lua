-- want: script
return {["\255"] = 1}
