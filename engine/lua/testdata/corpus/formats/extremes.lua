-- want: fine
return ("%d %i %u %x %c %e %g"):format(1e308, -1e308, 0/0, -1, 1e300, 1/0, -1/0)
