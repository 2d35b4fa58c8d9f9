package follow

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Removals of so many objects of a kind are never too many, nor are those of this share of
// what is live, in percent.
const (
	fewRemovals         = 10
	defaultRemovalShare = 20
)

// removals are those that the registry means.
type removals struct {
	made     int64           // by registries, since the fleet was founded
	accepted int64           // objects whose loss an administrator accepted last
	at       script.Revision // of that
}

func removalsOf(p *eventv1.Page) removals {
	return removals{made: p.GetRemovals(), accepted: p.GetAcceptedLoss(), at: script.Revision(p.GetAcceptedLossRevision())}
}

// guardRemovals refuses to remove a large part of what is live at once, unless the registry
// means it: it made as many removals since the cursor, or an administrator accepted the
// loss. A store that lost its records empties no agent.
func (a *applier) guardRemovals(gone []string, candidates []*candidate, from Cursor, meant removals) error {
	removed := map[script.ObjectKind]int{}
	for _, key := range gone {
		kind, _ := kindOf(key)
		removed[kind]++
	}
	for _, c := range candidates {
		if c.err == nil && c.Object.Deleted() && a.state.Revision(c.Key) != 0 {
			removed[c.Object.Kind()]++
		}
	}
	made := max(0, int(meant.made-from.Removals))
	for kind, n := range removed {
		if n-made <= fewRemovals {
			continue
		}
		live := a.count(kind)
		if (n-made)*100 <= live*a.share {
			continue
		}
		if meant.at > from.Accepted && int64(n-made) <= meant.accepted {
			continue
		}
		err := refuse(refusedRemoval,
			"the registry would remove %d of %d live %s, and has a record of %d removals: restore what it lost; if the loss is meant, run scriptctl doctor --accept-loss %d",
			n, live, kind, made, n-made)
		a.refusals.note("removal", err)
		return &heldBack{err}
	}
	return nil
}

// count returns how many objects of the kind are live.
func (a *applier) count(kind script.ObjectKind) (n int) {
	for key := range a.state.Live() {
		if of, _ := kindOf(key); of == kind {
			n++
		}
	}
	return n
}
