package controller

import "time"

// A LuaScript's status is written once a second on average.
const paceInterval = time.Second

// pace is how often one status is written: a bucket of two tokens that gets one back
// each second. What is urgent, a condition that became true or false, takes the last
// one; what is not leaves it there. So counts change once a second, and who waits for a
// condition still hears of it at once.
type pace struct {
	full time.Time // when the bucket is full again
}

// take takes a token and returns 0, or returns how long to wait for one.
func (p *pace) take(now time.Time, urgent bool) time.Duration {
	owed := max(0, p.full.Sub(now)) // until it is full: paceInterval a token that is missing
	most := time.Duration(0)
	if urgent {
		most = paceInterval
	}
	if owed > most {
		return owed - most
	}
	p.full = now.Add(owed + paceInterval)
	return 0
}
