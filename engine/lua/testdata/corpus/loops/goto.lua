-- want: limit
::again:: goto again
