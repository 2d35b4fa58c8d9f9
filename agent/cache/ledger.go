package cache

import (
	"iter"
	"slices"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// record is a live object in memory.
type record interface {
	comparable
	// Fingerprint returns the object's as it is in memory now.
	Fingerprint() wire.Sum
	// tally is where the ledger notes what it has counted.
	tally() *tally
}

// tally is what a ledger has counted of an object.
type tally struct {
	sum  wire.Sum // the fingerprint, as the ledger's sum has it
	live bool     // it is in the sum
}

// ledger sums the fingerprints of a table's live objects. The table's lock guards it.
type ledger[R record] struct {
	sum  wire.Sum
	rota []R // to be looked at again next
}

// replace counts with in place of old; the zero R is none.
func (l *ledger[R]) replace(old, with R) {
	var none R
	if old != none {
		l.sum.Remove(old.tally().sum)
		old.tally().live = false
	}
	if with != none {
		*with.tally() = tally{sum: with.Fingerprint(), live: true}
		l.sum.Add(with.tally().sum)
	}
}

// checksum returns the sum, after it made the fingerprints of at least `again` of the
// live objects anew, each time of the next ones, or of all of them, if there are no
// more.
func (l *ledger[R]) checksum(again, count int, all iter.Seq[R]) wire.Sum {
	if again >= count {
		l.sum, l.rota = wire.Sum{}, nil // which may have flipped, too
		for r := range all {
			r.tally().sum = r.Fingerprint()
			l.sum.Add(r.tally().sum)
		}
		return l.sum
	}
	for again > 0 {
		if len(l.rota) == 0 {
			l.rota = slices.AppendSeq(l.rota[:0], all)
		}
		r := l.rota[0]
		l.rota = l.rota[1:]
		if !r.tally().live { // it was replaced meanwhile
			continue
		}
		l.sum.Remove(r.tally().sum)
		r.tally().sum = r.Fingerprint()
		l.sum.Add(r.tally().sum)
		again--
	}
	return l.sum
}
