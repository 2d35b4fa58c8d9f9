// Package mirror keeps every object of a registry in memory, as it travels to agents:
// sealed once, with what each group of agents needs to know, so that to bring a
// follower up costs what has changed and no work of the store.
package mirror

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Mirror is a registry.Projection of all objects. It is safe for concurrent use.
// It is empty until it was reset for the first time.
type Mirror struct {
	sealer *seal.Sealer
	log    *slog.Logger

	mu    sync.RWMutex
	image *image
	moved chan struct{} // closed when the head moves; nil while nobody waits
	fresh chan struct{} // has a token when there is a new image
}

var _ registry.Projection = (*Mirror)(nil)

// image is what is known. Only the mirror, with its lock held, changes it.
type image struct {
	fleet       string
	head, floor script.Revision
	loss        Loss
	entries     map[string]*Entry // by the objects' keys
	ends        Entry             // of the ring of entries: newer is the oldest one, older the newest
	tenants     map[string]*tenant
	counted     map[string]int64  // what each counter of removals says
	groups      map[string]*group // by their names
	holders     holders
	// unreadable are the objects whose records cannot be read, by their keys. Their entries
	// say what they were before; the sums leave them out, since others may not know that.
	unreadable map[string]registry.Unreadable
}

// tenant is what is known of one tenant.
type tenant struct {
	name string
	head script.Revision // of the last transaction that touched it
	sums Sums
	// removed counts its objects that registries have removed.
	removed int64
}

// Loss is how many lost objects an administrator accepted the loss of last, and when.
type Loss struct {
	Objects int64
	At      script.Revision
}

// group is what is kept of a group so that it need not be counted each time.
type group struct {
	tenants script.Selector
	Position
}

// Position is where a group is.
type Position struct {
	// Head is the revision of the last transaction that touched the group.
	Head script.Revision
	Sums Sums // over the group's live objects, but for those that are unreadable
	// Removed counts the group's objects that registries have removed since the fleet was
	// founded.
	Removed int64
	// LossAcceptedAt is the revision at which an administrator accepted a loss last, of
	// whichever group.
	LossAcceptedAt script.Revision
}

// New returns a mirror whose entries the sealer seals.
func New(sealer *seal.Sealer, log *slog.Logger) *Mirror {
	m := &Mirror{sealer: sealer, log: log, fresh: make(chan struct{}, 1)}
	m.image = m.newImage(registry.State{})
	return m
}

func (m *Mirror) newImage(s registry.State) *image {
	i := &image{
		fleet: s.Fleet,
		head:  s.Head,
		floor: s.Floor,

		loss:    Loss{Objects: s.Removals.Accepted, At: s.Removals.At},
		entries: make(map[string]*Entry, s.Len()),
		tenants: make(map[string]*tenant, len(s.Heads)),
		counted: map[string]int64{},
		groups:  map[string]*group{},
		holders: holders{},

		unreadable: make(map[string]registry.Unreadable, len(s.Unreadable)),
	}
	i.ends.older, i.ends.newer = &i.ends, &i.ends
	for name, head := range s.Heads {
		i.tenants[name] = &tenant{name: name, head: head}
	}
	i.remove(s.Removals)
	return i
}

// Reset implements registry.Projection.
func (m *Mirror) Reset(s registry.State) {
	next := m.newImage(s)
	m.mu.RLock()
	old := m.image
	m.mu.RUnlock()
	for _, e := range m.sorted(old, s) {
		next.put(e)
	}
	for _, u := range s.Unreadable {
		next.mark(u)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range old.groups {
		next.keep(g.tenants)
	}
	m.image = next
	m.advanced()
	select {
	case m.fresh <- struct{}{}:
	default:
	}
}

// sorted returns the state's entries in the order of their revisions. Those that
// were known stay: they may be sealed. So do those whose records cannot be read now.
func (m *Mirror) sorted(old *image, s registry.State) []*Entry {
	entries := make([]*Entry, 0, s.Len())
	for o := range s.Objects() {
		if e := old.entries[o.Key()]; e != nil && old.fleet == s.Fleet && e.says(o) {
			entries = append(entries, e.copied())
			continue
		}
		if e := m.entry(s.Fleet, o); e != nil {
			entries = append(entries, e)
		}
	}
	for _, u := range s.Unreadable {
		if e := old.entries[u.Key]; e != nil && old.fleet == s.Fleet && u.Last == nil {
			entries = append(entries, e.copied())
		}
	}
	slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.revision, b.revision) })
	return entries
}

// entry returns nil for what cannot be encoded, which is nothing that the store
// has decoded.
func (m *Mirror) entry(fleet string, o script.Object) *Entry {
	e, err := newEntry(m.sealer, fleet, o)
	if err != nil {
		m.log.Error("an object is left out of what agents get", "error", err)
		return nil
	}
	return e
}

// Apply implements registry.Projection.
func (m *Mirror) Apply(t registry.Transaction) {
	m.mu.RLock()
	fleet := m.image.fleet
	m.mu.RUnlock()
	var entries []*Entry
	for o := range t.Objects() {
		if e := m.entry(fleet, o); e != nil {
			entries = append(entries, e)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for o := range t.Objects() {
		m.image.touch(o.TenantName(), t.Revision)
	}
	for _, e := range entries {
		m.image.put(e)
	}
	for _, u := range t.Unreadable {
		m.image.touch(u.TenantName(), t.Revision)
		m.image.mark(u)
	}
	m.image.head = t.Revision
	m.image.remove(t.Removals)
	m.advanced()
}

// advanced tells those who wait.
func (m *Mirror) advanced() {
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// remove takes in what a transaction says of removals.
func (i *image) remove(r registry.Removals) {
	for counter, made := range r.Made {
		name, _, _ := strings.Cut(counter, "/")
		more := made - i.counted[counter]
		i.counted[counter] = made
		i.tenant(name).removed += more
		for _, g := range i.groups {
			if g.tenants.Matches(name) {
				g.Removed += more
			}
		}
	}
	if r.At > i.loss.At {
		i.loss = Loss{Objects: r.Accepted, At: r.At}
	}
}

// touch notes that the transaction at the revision touched the tenant.
func (i *image) touch(name string, revision script.Revision) {
	i.tenant(name).head = revision
	for _, g := range i.groups {
		if g.tenants.Matches(name) {
			g.Head = revision
		}
	}
}

func (i *image) tenant(name string) *tenant {
	t := i.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		i.tenants[name] = t
	}
	return t
}

// put makes e the entry of its object. It is the newest one.
func (i *image) put(e *Entry) {
	t := i.tenant(e.tenant)
	t.head = max(t.head, e.revision)
	delta := e.sum
	if old := i.entries[e.key]; old != nil {
		if _, out := i.unreadable[e.key]; !out {
			delta.Remove(old.sum)
		}
		i.unlink(old)
	}
	delete(i.unreadable, e.key)
	for digest := range e.retained {
		i.holders.add(digest, t)
	}
	i.entries[e.key] = e
	last := i.ends.older
	last.newer, e.older, e.newer, i.ends.older = e, last, &i.ends, e
	i.count(t, e.kind, delta)
}

// count adds to the sums of the tenant and of its groups.
func (i *image) count(t *tenant, k kind, delta wire.Sum) {
	t.sums[k].Add(delta)
	for _, g := range i.groups {
		if g.tenants.Matches(t.name) {
			g.Sums[k].Add(delta)
		}
	}
}

// mark notes that the record of an object cannot be read. Its entry stays.
func (i *image) mark(u registry.Unreadable) {
	t := i.tenant(u.TenantName())
	t.head = max(t.head, u.Revision)
	_, out := i.unreadable[u.Key]
	if e := i.entries[u.Key]; e != nil && !out {
		var delta wire.Sum
		delta.Remove(e.sum)
		i.count(t, e.kind, delta)
	}
	i.unreadable[u.Key] = u
}

// unlink takes e out of the order, and what it retains out of what is held.
func (i *image) unlink(e *Entry) {
	e.older.newer, e.newer.older = e.newer, e.older
	t := i.tenants[e.tenant]
	for digest := range e.retained {
		i.holders.remove(digest, t)
	}
}

// Head returns the revision up to which everything is here.
func (m *Mirror) Head() script.Revision {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.image.head
}

// Reached waits until everything up to the revision is here. The error is that of
// ctx.
func (m *Mirror) Reached(ctx context.Context, revision script.Revision) error {
	for {
		m.mu.Lock()
		if m.image.fleet != "" && m.image.head >= revision {
			m.mu.Unlock()
			return nil
		}
		if m.moved == nil {
			m.moved = make(chan struct{})
		}
		moved := m.moved
		m.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Forget drops the tombstones from before then, and raises the floor: followers
// from below it get a full snapshot. Like Reset and Apply it is called by one
// goroutine.
func (m *Mirror) Forget(before time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.image
	for e := i.ends.newer; e != &i.ends; e = e.newer {
		if e.deleted && e.changedAt.Before(before) {
			i.unlink(e)
			delete(i.entries, e.key)
			i.floor = max(i.floor, e.revision)
		}
	}
}

// SealAll seals what each Reset brings, until ctx is done: to seal is the most work
// in a first snapshot.
func (m *Mirror) SealAll(ctx context.Context) {
	for {
		select {
		case <-m.fresh:
		case <-ctx.Done():
			return
		}
		for _, e := range m.all() {
			if ctx.Err() != nil {
				return
			}
			if _, err := e.Sealed(); err != nil {
				m.log.Error("an entry could not be sealed", "error", err)
			}
		}
	}
}
