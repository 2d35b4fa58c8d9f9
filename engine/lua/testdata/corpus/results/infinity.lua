-- want: script
return {1/0}
