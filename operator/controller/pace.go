package controller

import "time"

// An object's status is written once a second on average.
const paceInterval = time.Second

// haste is the urgency of a write: it names those that wait for it.
type haste int

const (
	counts    haste = iota // nobody: a count or a message changed
	condition              // somebody: a condition became something else
	outcome                // whoever applied the spec: it has converged, or is stalled
)

// pace is how often one status is written: a bucket of three tokens that gets one back
// each second. Counts leave two of them there, for a condition that changes and for
// the outcome of an edit, and a condition leaves one for the outcome. So counts change
// once a second, and who waits for an edit hears of it at once, right after another one
// too; of the outcomes of a row of edits the later ones wait for up to a second.
type pace struct {
	full time.Time // when the bucket is full again
}

// take takes a token and returns 0, or returns how long to wait for one.
func (p *pace) take(now time.Time, h haste) time.Duration {
	owed := max(0, p.full.Sub(now)) // until it is full: paceInterval a token that is missing
	if most := time.Duration(h) * paceInterval; owed > most {
		return owed - most
	}
	p.full = now.Add(owed + paceInterval)
	return 0
}
