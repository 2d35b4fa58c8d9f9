package follow

import (
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

// maxSkipped bounds how many older versions of a failing object the agent remembers.
const maxSkipped = 16

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

// skip returns the versions that never went live here, once another one replaces the last of them.
func skip(skipped []script.Revision, last script.Revision) []script.Revision {
	return append(slices.Clone(skipped[max(0, len(skipped)-maxSkipped+1):]), last)
}

// skippedBy returns what the object replaces that never went live here.
func (a *applier) skippedBy(o Item) []script.Revision {
	f := a.failing[o.Key]
	switch {
	case f == nil:
		return nil
	case f.item.Object.Revision() == o.Object.Revision():
		return f.skipped
	}
	return skip(f.skipped, f.item.Object.Revision())
}

// again returns the failing object as a candidate.
func (f *failing) again() *candidate {
	return &candidate{Item: f.item, since: f.since, skipped: f.skipped}
}

// lacks reports whether the transaction cannot go live because the object fails. If the transaction
// wrote what is live of the object, only a content is missing, and the rest is live, too.
func (a *applier) lacks(t transaction, o Item) bool { return t.revision > a.state.Revision(o.Key) }

// holdBack fails the candidates whose transaction has another part that fails. A version that a retry
// may make live holds back what waits for the versions that it replaces, too. One that has an error
// that stays does not: the registry has nothing better to offer.
func (a *applier) holdBack(candidates []*candidate) {
	lacking := map[transaction]*candidate{}
	note := func(c *candidate) {
		if script.KindOf(c.err).Deterministic() {
			c = &candidate{Item: c.Item, err: c.err}
		}
		for t := range transactions(c.Object, c.skipped) {
			if first := lacking[t]; a.lacks(t, c.Item) && (first == nil || c.Key < first.Key) {
				lacking[t] = c
			}
		}
	}
	among := keys{}
	for _, c := range candidates {
		among[c.Key] = struct{}{}
		if c.err != nil {
			note(c)
		}
	}
	for key, f := range a.failing {
		if !among.has(key) {
			note(&candidate{Item: f.item, skipped: f.skipped, err: f.err})
		}
	}
	if len(lacking) == 0 {
		return
	}
	for _, c := range candidates {
		for t := range transactions(c.Object, nil) {
			if part := lacking[t]; part != nil && c.err == nil {
				c.err = script.Errorf(script.Unavailable, "", "it goes live together with %s, which cannot: %w", part.Key, part.err)
			}
		}
	}
}

// retriable yields the failing objects that a retry can make live. The others have an error that
// stays, or wait for an object that has one.
func (a *applier) retriable(yield func(*failing) bool) {
	stuck := map[transaction]bool{}
	for _, f := range a.failing {
		for t := range transactions(f.item.Object, nil) {
			stuck[t] = stuck[t] || !f.passing && a.lacks(t, f.item)
		}
	}
	for _, f := range a.failing {
		waits := false
		for t := range transactions(f.item.Object, nil) {
			waits = stuck[t]
		}
		if f.passing && !waits && !yield(f) {
			return
		}
	}
}

// due are the objects to try again now, with the rest of their transactions.
func (a *applier) due(now time.Time) (list []*failing) {
	together := map[transaction]bool{}
	for f := range a.retriable {
		for t := range transactions(f.item.Object, f.skipped) {
			together[t] = together[t] || !f.at.After(now)
		}
	}
	for f := range a.retriable {
		is := !f.at.After(now)
		for t := range transactions(f.item.Object, f.skipped) {
			is = is || together[t]
		}
		if is {
			list = append(list, f)
		}
	}
	return list
}

// released are the failing objects that share a transaction with one that the agent has chosen to
// make live, and have not been chosen.
func (a *applier) released(chosen *selection) (list []*candidate) {
	touched := map[transaction]bool{}
	for key, f := range a.failing {
		if chosen.has(key) {
			for t := range transactions(f.item.Object, f.skipped) {
				touched[t] = true
			}
		}
	}
	if len(touched) == 0 {
		return nil
	}
	for key, f := range a.failing {
		is := false
		for t := range transactions(f.item.Object, f.skipped) {
			is = is || touched[t]
		}
		if is && f.passing && !chosen.has(key) {
			list = append(list, f.again())
		}
	}
	return list
}

func (s *selection) has(key string) bool {
	_, ok := s.at[key]
	return ok
}
