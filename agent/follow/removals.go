package follow

import (
	"slices"

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
	counted  bool            // made is known: older registries do not say
	accepted int64           // objects whose loss an administrator accepted last
	at       script.Revision // of that
}

func removalsOf(p *eventv1.Page) removals {
	return removals{made: p.GetRemovals(), counted: p.Removals != nil, accepted: p.GetAcceptedLoss(), at: script.Revision(p.GetAcceptedLossRevision())}
}

// UnknownRemovals is the Cursor's Removals of an agent that does not know what the registry
// had removed when the agent was current last.
const UnknownRemovals = -1

// recorded returns how many removals the registry has a record of that came after the cursor, or
// that were withheld.
func (c Cursor) recorded(made int64) int {
	if c.Removals < 0 {
		return 0
	}
	return int(max(0, made-c.Removals) + c.Withheld)
}

// removed returns the cursor after n recorded removals, of which the registry made so many in
// all.
func (c Cursor) removed(n int, made int64) Cursor {
	if c.Removals >= 0 {
		c.Removals = min(c.Removals+int64(n), max(c.Removals, made))
	}
	return c
}

// accepts reports whether an administrator accepted the loss of n objects after the cursor.
func (c Cursor) accepts(n int, meant removals) bool {
	return c.Removals >= 0 && meant.at > c.Accepted && int64(n) <= meant.accepted
}

// guardRemovals returns why the applier must not remove all that the registry removes: it is
// a large part of what is live, and the registry does not mean it. The registry means it if it
// made as many removals since the cursor, or if an administrator accepted the loss. A store
// that lost its records empties no agent.
func (a *applier) guardRemovals(gone []string, candidates []*candidate, from Cursor, meant removals) error {
	removed := map[script.ObjectKind]int{}
	for _, key := range gone {
		kind, _ := kindOf(key)
		removed[kind]++
	}
	for _, c := range candidates {
		if a.removes(c) {
			removed[c.Object.Kind()]++
		}
	}
	made, over, beyond := from.recorded(meant.made), map[script.ObjectKind]int{}, 0
	for kind, n := range removed {
		over[kind] = n - a.tolerated(kind, n)
		beyond += over[kind]
	}
	var most script.ObjectKind // whose loss is the largest: who accepts that, accepts the others
	largest := 0
	for kind, n := range removed {
		lost := n - max(0, made-(beyond-over[kind])) // a record that another kind needs counts there
		if beyond <= made || over[kind] == 0 || from.accepts(lost, meant) {
			continue
		}
		if lost > largest || lost == largest && kind < most {
			most, largest = kind, lost
		}
	}
	if most == "" {
		return nil
	}
	n := removed[most]
	err := refuse(refusedRemoval,
		"the registry would remove %d of %d live %s, and has a record of %d removals: restore what it lost; if the loss is meant, run scriptctl doctor --accept-loss %d",
		n, a.count(most), most, n-largest, largest)
	a.refusals.note("removal", err)
	return &heldBack{err}
}

// tolerated returns how many of n removed objects of the kind need no record.
func (a *applier) tolerated(kind script.ObjectKind, n int) int {
	if n <= fewRemovals {
		return n
	}
	return min(n, max(fewRemovals, a.count(kind)*a.share/100))
}

// removes reports whether the candidate would remove a live object.
func (a *applier) removes(c *candidate) bool {
	return c.err == nil && c.Object.Deleted() && a.state.Revision(c.Key) != 0
}

// withhold returns the candidates that remove nothing.
func (a *applier) withhold(candidates []*candidate) []*candidate {
	return slices.DeleteFunc(candidates, a.removes)
}

// unremoved counts the live objects that could not be removed so far.
func (a *applier) unremoved() (n int64) {
	for key, f := range a.failing {
		if f.item.Object.Deleted() && a.state.Revision(key) != 0 {
			n++
		}
	}
	return n
}

// unremovedOf counts the candidates whose live objects could not be removed.
func (a *applier) unremovedOf(candidates []*candidate) (n int) {
	for _, c := range candidates {
		if c.err != nil && c.Object.Deleted() && a.state.Revision(c.Key) != 0 {
			n++
		}
	}
	return n
}

// tombstones counts those among objects. The registry has a record of each, whether its object
// was live here or not.
func tombstones(objects []object) (n int) {
	for _, o := range objects {
		if o.err == nil && o.Object.Deleted() {
			n++
		}
	}
	return n
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
