package follow

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// transaction is one of the registry's. The scripts and values of a tenant that it has changed go
// live together: nobody is to call a new script of a change set, and then an old one.
type transaction struct {
	tenant   string
	revision script.Revision
}

// transactionOf returns that of the object; ok is false for what goes live by itself.
func transactionOf(o script.Object) (t transaction, ok bool) {
	return transaction{o.TenantName(), o.Revision()}, o.Tenant == nil
}

// holdBack fails those candidates which lack a part of their transaction, because that part fails.
func (a *applier) holdBack(candidates []*candidate) {
	lacking := map[transaction]*candidate{}
	lacks := func(c *candidate) {
		t, ok := transactionOf(c.Object)
		if !ok || a.state.Revision(c.Key) >= t.revision { // it is live, and lacks a content alone
			return
		}
		if first := lacking[t]; first == nil || c.Key < first.Key {
			lacking[t] = c
		}
	}
	among := keys{}
	for _, c := range candidates {
		among[c.Key] = struct{}{}
		if c.err != nil {
			lacks(c)
		}
	}
	for key, f := range a.failing {
		if !among.has(key) {
			lacks(&candidate{Item: f.item, err: f.err})
		}
	}
	if len(lacking) == 0 {
		return
	}
	for _, c := range candidates {
		t, ok := transactionOf(c.Object)
		if part := lacking[t]; ok && part != nil && c.err == nil {
			c.err = script.Errorf(script.Unavailable, "", "it goes live together with %s, which cannot: %w", part.Key, part.err)
		}
	}
}

// due are the objects to be tried again now, with the rest of their transactions.
func (a *applier) due(now time.Time) (list []*failing) {
	together := map[transaction]bool{}
	for _, f := range a.failing {
		if t, ok := transactionOf(f.item.Object); ok && f.passing && !f.at.After(now) {
			together[t] = true
		}
	}
	for _, f := range a.failing {
		t, ok := transactionOf(f.item.Object)
		if f.passing && (!f.at.After(now) || ok && together[t]) {
			list = append(list, f)
		}
	}
	return list
}

// released are the candidates that waited for a part of their transaction which is among the chosen
// in another revision.
func (a *applier) released(chosen *selection) (list []*candidate) {
	replaced := map[transaction]bool{}
	for key, f := range a.failing {
		if t, ok := transactionOf(f.item.Object); ok && chosen.has(key) {
			replaced[t] = true
		}
	}
	if len(replaced) == 0 {
		return nil
	}
	for key, f := range a.failing {
		if t, ok := transactionOf(f.item.Object); ok && replaced[t] && f.passing && !chosen.has(key) {
			list = append(list, &candidate{Item: f.item, since: f.since})
		}
	}
	return list
}

func (s *selection) has(key string) bool {
	_, ok := s.at[key]
	return ok
}
