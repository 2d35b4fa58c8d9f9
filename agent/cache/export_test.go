package cache

// SpoilValue flips a bit of the live value "tenant/key" in memory.
func SpoilValue(v *Values, name string) { v.named(name).digest[3] ^= 4 }
