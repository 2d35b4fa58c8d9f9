-- want: script fine
return ("abc"):match("()%1")
