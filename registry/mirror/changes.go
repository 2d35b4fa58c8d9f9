package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Query is what a follower asks for.
type Query struct {
	// Fleet that Since belongs to: revisions of two fleets cannot be compared.
	Fleet string
	// Since is the revision that the follower has; 0 for none.
	Since script.Revision
	// Tenants that it follows.
	Tenants script.Selector
	// ReleasesOnly: it knows no other objects.
	ReleasesOnly bool
}

// Changes is what a follower lacks, as of one moment.
type Changes struct {
	Fleet string
	Head  script.Revision // the registry's
	// Full: Entries are all live ones. Else they are those above Query.Since, tombstones
	// included.
	Full bool
	// Entries are in the order of their revisions.
	Entries []*Entry
	Group   Position
	// Loss that was accepted last, as of Head.
	Loss Loss
	// Unreadable are the keys of the group's objects whose records cannot be read, in order.
	Unreadable []string
}

// Changes returns what the follower lacks. It costs time by what has changed in
// the registry since.
func (m *Mirror) Changes(q Query) Changes {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i := m.image
	c := Changes{Fleet: i.fleet, Head: i.head, Loss: i.loss, Group: i.position(q.Tenants), Unreadable: i.unreadableOf(q.Tenants)}
	c.Full = q.Fleet != i.fleet || q.Since <= 0 || q.Since > i.head || q.Since < i.floor
	since := q.Since
	if c.Full {
		since = 0
		if q.Tenants.All() {
			c.Entries = make([]*Entry, 0, len(i.entries))
		}
	} else if c.Group.Head <= since {
		return c
	}
	matches := memo(q.Tenants)
	for e := i.ends.older; e != &i.ends && e.revision > since; e = e.older {
		if (!c.Full || !e.deleted) && (!q.ReleasesOnly || e.kind == kindReleases) && matches(e.tenant) {
			c.Entries = append(c.Entries, e)
		}
	}
	slices.Reverse(c.Entries)
	return c
}

// memo returns tenants.Matches that remembers its answers.
func memo(tenants script.Selector) func(string) bool {
	if tenants.All() {
		return func(string) bool { return true }
	}
	known := map[string]bool{}
	return func(tenant string) bool {
		match, ok := known[tenant]
		if !ok {
			match = tenants.Matches(tenant)
			known[tenant] = match
		}
		return match
	}
}

// Entries returns the entries of the objects with the keys, where there are any.
func (m *Mirror) Entries(keys ...string) []*Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entries := make([]*Entry, 0, len(keys))
	for _, key := range keys {
		if e := m.image.entries[key]; e != nil {
			entries = append(entries, e)
		}
	}
	return entries
}

func (m *Mirror) all() []*Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entries := make([]*Entry, 0, len(m.image.entries))
	for e := m.image.ends.older; e != &m.image.ends; e = e.older {
		entries = append(entries, e)
	}
	return entries
}

// Size returns how many objects are here, tombstones included.
func (m *Mirror) Size() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.image.entries)
}

// Fleet returns the registry's identity; "" before the first Reset.
func (m *Mirror) Fleet() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.image.fleet
}

// Knows reports whether the tenant has, or ever had, an object.
func (m *Mirror) Knows(tenant string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.image.tenants[tenant] != nil
}

// Group returns where the group of the tenants is.
func (m *Mirror) Group(tenants script.Selector) Position {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.image.position(tenants)
}

// Keep has the position of the group at hand from now on, until it is dropped.
func (m *Mirror) Keep(tenants script.Selector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.image.keep(tenants)
}

// Drop ends what Keep began.
func (m *Mirror) Drop(tenants script.Selector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.image.groups, tenants.Group())
}

func (i *image) keep(tenants script.Selector) {
	i.groups[tenants.Group()] = &group{tenants: tenants, Position: i.position(tenants)}
}

// UnreadableOf returns the keys of the tenants' objects whose records cannot be read, in
// order.
func (m *Mirror) UnreadableOf(tenants script.Selector) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.image.unreadableOf(tenants)
}

// unreadableOf implements UnreadableOf.
func (i *image) unreadableOf(tenants script.Selector) []string {
	var keys []string
	for key, u := range i.unreadable {
		if tenants.Matches(u.TenantName()) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Unreadable returns the objects whose records cannot be read, in the order of their keys.
func (m *Mirror) Unreadable() []registry.Unreadable {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.SortedFunc(maps.Values(m.image.unreadable), func(a, b registry.Unreadable) int { return strings.Compare(a.Key, b.Key) })
}

func (i *image) position(tenants script.Selector) Position {
	p := i.sum(tenants)
	p.LossAcceptedAt = i.loss.At
	return p
}

// sum returns the position as the tenants' objects have it.
func (i *image) sum(tenants script.Selector) (p Position) {
	if g := i.groups[tenants.Group()]; g != nil {
		return g.Position
	}
	for _, t := range i.tenants {
		if tenants.Matches(t.name) {
			p.Head = max(p.Head, t.head)
			p.Sums.add(t.sums)
			p.Removed += t.removed
		}
	}
	if tenants.All() {
		p.Head = i.head
	}
	return p
}
