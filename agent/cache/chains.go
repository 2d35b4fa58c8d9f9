package cache

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// event is one that scripts of the tenant may run on.
type event struct{ tenant, name string }

// chain has the releases that run on an event, in their order. It is immutable.
type chain struct {
	releases []*Release // nil if there are more than may be
	count    int
}

// events has the releases that run on each event, by "tenant/name".
type events map[event]map[string]*Release

// eventsOf returns the events that the release runs on: that of what Runs, and that of Split if it is
// another one. They are zero if there is none, or nothing runs of the release.
func eventsOf(r *Release) (of [2]event) {
	if !r.Enabled || r.Untried() {
		return of
	}
	if r.Trigger.Event != "" {
		of[0] = event{r.Name.Tenant, r.Trigger.Event}
	}
	if k := r.Split; k != nil && r.Shadow == nil && k.Trigger.Event != "" && k.Trigger.Event != r.Trigger.Event {
		of[1] = event{r.Name.Tenant, k.Trigger.Event}
	}
	return of
}

// inChain reports whether the table has the release in a chain.
func (r *Release) inChain() bool { return r.chained != [2]event{} }

// replace puts one release of the script in the place of another, either of which may be nil, and
// notes the events whose chains change.
func (e events) replace(name string, old, with *Release, changed map[event]struct{}) {
	if old != nil {
		for _, of := range old.chained {
			if of != (event{}) {
				delete(e[of], name)
				changed[of] = struct{}{}
			}
		}
	}
	if with == nil {
		return
	}
	with.chained = eventsOf(with)
	for _, of := range with.chained {
		if of == (event{}) {
			continue
		}
		if e[of] == nil {
			e[of] = map[string]*Release{}
		}
		e[of][name] = with
		changed[of] = struct{}{}
	}
}

// chain returns the chain of the event; nil if no release runs on it.
func (e events) chain(of event) *chain {
	releases := e[of]
	switch n := len(releases); {
	case n == 0:
		delete(e, of)
		return nil
	case n > script.MaxEventLive:
		return &chain{count: n}
	}
	return &chain{count: len(releases), releases: slices.SortedFunc(maps.Values(releases), InTurn)}
}

// InTurn orders releases of a tenant as a chain runs them.
func InTurn(a, b *Release) int {
	return cmp.Or(cmp.Compare(b.Trigger.Priority, a.Trigger.Priority), cmp.Compare(a.Name.Script, b.Name.Script))
}

// rechain makes the chains of the events anew in a view that nobody else has yet. Only the scripts
// of these events count for what it takes. t.writing is held.
func (t *Table) rechain(v *view, changed map[event]struct{}) {
	copied := map[uint64]bool{}
	for of := range changed {
		i := t.shardOfEvent(of)
		if !copied[i] {
			copied[i] = true
			if v.chains[i] = maps.Clone(v.chains[i]); v.chains[i] == nil {
				v.chains[i] = map[event]*chain{}
			}
		}
		if c := t.events.chain(of); c != nil {
			v.chains[i][of] = c
		} else {
			delete(v.chains[i], of)
		}
	}
}

// Chain returns the releases of the tenant that run on the event, or whose Split does, as they are live
// at one moment, in the order of what Runs, and how many there are. There are no releases in it if these are more than
// script.MaxEventLive. It allocates nothing, and nobody changes what it returns.
func (t *Table) Chain(tenant, name string) (releases []*Release, count int) {
	of := event{tenant, name}
	c := t.live.Load().chains[t.shardOfEvent(of)][of]
	if c == nil {
		return nil, 0
	}
	return c.releases, c.count
}

func (t *Table) shardOfEvent(of event) uint64 { return maphash.Comparable(t.seed, of) % shards }

// past keeps the releases that were live last and run on events, for chains that began with them, and the personal
// versions, for calls that have chosen them.
// The zero past keeps none.
type past struct {
	releases []*Release
	next     int // to be overwritten
}

func (p *past) keep(r *Release) {
	if len(p.releases) > 0 && (r.inChain() || r.Personal != nil) {
		p.releases[p.next] = r
		p.next = (p.next + 1) % len(p.releases)
	}
}

// KeepPast has the table keep the last so many releases that were replaced and that run on events or are personal.
func (t *Table) KeepPast(releases int) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.past = past{releases: make([]*Release, releases)}
}

// Edition returns the release of the script "tenant/name" that runs the version: the live one, its
// Split, or one of the past that is kept; else nil.
func (t *Table) Edition(name string, version uint64) *Release {
	live := func() *Release { return t.Get(name).running(version) }
	if r := live(); r != nil {
		return r
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if r := live(); r != nil {
		return r
	}
	for i := range t.past.releases { // the latest first
		n := len(t.past.releases)
		if r := t.past.releases[(t.past.next-1-i+2*n)%n].running(version); r != nil && r.Name.String() == name {
			return r
		}
	}
	return nil
}
