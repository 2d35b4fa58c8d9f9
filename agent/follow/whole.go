package follow

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// transaction is a transaction of the registry. The scripts and values of a tenant that it changed go
// live together: no caller meets a new script of a change set and then an old one. The settings of a
// tenant go live by themselves, and are part of no transaction here.
type transaction struct {
	tenant   string
	revision script.Revision
}

// transactionOf returns the transaction that wrote the object, and the zero one for settings.
func transactionOf(o script.Object) (t transaction) {
	if o.Tenant == nil {
		t = transaction{o.TenantName(), o.Revision()}
	}
	return t
}

const (
	// manySkipped is how many older versions of a failing object the agent remembers, even if no other
	// object waits for them.
	manySkipped = 16
	// maxSpread bounds the time of a search for what goes live together: a longer chain goes live in steps.
	maxSpread = 16
)

// transactions are those that wait for the object: the one that wrote it, and those that wrote the
// versions that it replaces and that never went live here.
func transactions(o script.Object, skipped []script.Revision) iter.Seq[transaction] {
	return func(yield func(transaction) bool) {
		if o.Tenant != nil || !yield(transaction{o.TenantName(), o.Revision()}) {
			return
		}
		for _, r := range skipped {
			if !yield(transaction{o.TenantName(), r}) {
				return
			}
		}
	}
}

// skippedBy returns what the object replaces that never went live here. The caller may append to it.
func (a *applier) skippedBy(o Item) []script.Revision {
	f := a.failing[o.Key]
	switch {
	case f == nil:
		return nil
	case f.item.Object.Revision() == o.Object.Revision():
		return slices.Clone(f.skipped)
	}
	return append(slices.Clone(f.skipped), f.item.Object.Revision())
}

// forgetSkipped forgets the skipped versions that no failing object waits for, if there are many. What is left
// of all objects is bounded: a transaction has few parts, and one of them fails at that very version.
func (a *applier) forgetSkipped() {
	if !a.manySkipped {
		return
	}
	a.manySkipped = false
	awaited := map[transaction]bool{}
	for _, f := range a.failing {
		awaited[transactionOf(f.item.Object)] = true
	}
	for _, f := range a.failing {
		if len(f.skipped) > manySkipped {
			tenant := f.item.Object.TenantName()
			f.skipped = slices.DeleteFunc(f.skipped, func(r script.Revision) bool { return !awaited[transaction{tenant, r}] })
		}
	}
}

// again returns the failing object as a candidate.
func (f *failing) again() *candidate {
	return &candidate{Item: f.item, since: f.since, skipped: f.skipped}
}

// lacks reports whether the transaction cannot go live because the object fails. If the transaction
// wrote what is live of the object, only a content is missing, and the rest is live, too.
func (a *applier) lacks(t transaction, o Item) bool { return t.revision > a.state.Revision(o.Key) }

// andFailing returns the candidates, and the failing objects that are not among them.
func (a *applier) andFailing(candidates []*candidate) []*candidate {
	among := keys{}
	for _, c := range candidates {
		among[c.Key] = struct{}{}
	}
	all := slices.Clone(candidates)
	for key, f := range a.failing {
		if !among.has(key) {
			c := f.again()
			c.err = f.err
			all = append(all, c)
		}
	}
	return all
}

// holdBack fails the candidates whose transaction has another part that fails, and returns all. A version that a retry
// may make live holds back what waits for the versions that it replaces, too. One that no retry makes
// live does not: the registry has nothing better to offer.
func (a *applier) holdBack(candidates []*candidate) []*candidate {
	failing, stuck := a.andFailing(candidates), map[transaction]bool{}
	for _, c := range failing {
		if script.KindOf(c.err).Deterministic() {
			a.sticks(stuck, c.Item)
		}
	}
	parts := map[transaction][]*candidate{}
	for _, c := range candidates {
		t := transactionOf(c.Object)
		parts[t] = append(parts[t], c)
		if stuck[t] && !script.KindOf(c.err).Deterministic() {
			c.err = nil // it has the error of the other part: nobody tries again to mend its own
		}
	}
	failing = slices.DeleteFunc(failing, func(c *candidate) bool { return c.err == nil })
	for len(failing) > 0 {
		lacking := map[transaction]*candidate{} // a part that fails
		for _, c := range failing {
			skipped := c.skipped
			if script.KindOf(c.err).Deterministic() || stuck[transactionOf(c.Object)] {
				skipped = nil
			}
			for t := range transactions(c.Object, skipped) {
				first := lacking[t]
				if parts[t] != nil && a.lacks(t, c.Item) && (first == nil || c.Key < first.Key) {
					lacking[t] = c
				}
			}
		}
		failing = failing[:0] // what fails now may hold back others
		for t, part := range lacking {
			for _, c := range parts[t] {
				if c.err == nil {
					c.err = failsWith(part)
					failing = append(failing, c)
				}
			}
			delete(parts, t) // once is enough: a chain of transactions takes time by its length
		}
	}
	return candidates
}

// partFails is why an object does not go live whose transaction has a part that cannot.
type partFails struct {
	part string
	err  error
}

func (p *partFails) Error() string {
	return fmt.Sprintf("it goes live together with %s, which cannot: %v", p.part, p.err)
}

func (p *partFails) Unwrap() error { return p.err }

// failsWith returns the error of what goes live together with the part. A part that waits for another one passes
// on the error of that: in a long chain, errors would grow with each.
func failsWith(part *candidate) error {
	why, waits := errors.AsType[*partFails](part.err)
	if !waits {
		why = &partFails{part.Key, part.err}
	}
	return script.Errorf(script.Unavailable, "", "%w", why)
}

// sticks adds the transaction of an object that no retry makes live.
func (a *applier) sticks(stuck map[transaction]bool, o Item) {
	for t := range transactions(o.Object, nil) {
		if a.lacks(t, o) {
			stuck[t] = true
		}
	}
}

// anyOf reports whether one of the transactions that wait for the failing object is among these.
func (f *failing) anyOf(these map[transaction]bool) bool {
	if len(these) == 0 {
		return false
	}
	for t := range transactions(f.item.Object, f.skipped) {
		if these[t] {
			return true
		}
	}
	return false
}

// spread adds the transactions that share a failing object with one of these, and so on.
func (a *applier) spread(these map[transaction]bool) {
	for range maxSpread {
		before := len(these)
		for _, f := range a.failing {
			if !f.anyOf(these) {
				continue
			}
			for t := range transactions(f.item.Object, f.skipped) {
				these[t] = true
			}
		}
		if len(these) == before {
			return
		}
	}
}

// retriable yields the failing objects that a retry can make live. The others have an error that
// stays, or wait for an object that has one.
func (a *applier) retriable(yield func(*failing) bool) {
	stuck := map[transaction]bool{}
	for _, f := range a.failing {
		if !f.passing {
			a.sticks(stuck, f.item)
		}
	}
	for _, f := range a.failing {
		if f.passing && !stuck[transactionOf(f.item.Object)] && !yield(f) {
			return
		}
	}
}

// due are the objects to try again now, with the rest of their transactions.
func (a *applier) due(now time.Time) (list []*failing) {
	together := map[transaction]bool{}
	for f := range a.retriable {
		if f.at.After(now) {
			continue
		}
		for t := range transactions(f.item.Object, f.skipped) {
			together[t] = true
		}
	}
	a.spread(together)
	for f := range a.retriable {
		if !f.at.After(now) || f.anyOf(together) {
			list = append(list, f)
		}
	}
	return list
}

// released are the failing objects that share a transaction with one that the agent has chosen to
// make live, and have not been chosen.
func (a *applier) released(chosen *selection) (list []*candidate) {
	touched := map[transaction]bool{}
	for key := range chosen.at {
		if f := a.failing[key]; f != nil {
			for t := range transactions(f.item.Object, f.skipped) {
				touched[t] = true
			}
		}
	}
	if len(touched) == 0 {
		return nil
	}
	a.spread(touched)
	for key, f := range a.failing {
		if f.passing && !chosen.has(key) && f.anyOf(touched) {
			list = append(list, f.again())
		}
	}
	return list
}

func (s *selection) has(key string) bool {
	_, ok := s.at[key]
	return ok
}
