-- want: script
return {[true] = 1}
