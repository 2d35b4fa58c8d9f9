package registry

import (
	"cmp"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxRecent releases are remembered.
const maxRecent = 4096

// Recent remembers the releases that changed last, the settings and usage of all tenants, and the freeze, so
// that a write need not read them first: most writes follow others of the same script.
// It is a Projection, to be followed, and may be behind the store at any time: whoever
// decides on what it says has the store check, with the commit, that nothing has changed
// since. It is safe for concurrent use.
type Recent struct {
	releases *lru.Cache[script.Name, script.Release]

	mu      sync.Mutex
	tenants map[string]script.Tenant
	usages  usages
	freeze  script.Freeze
	ready   bool // there was a Reset: a tenant that is not known has no settings
}

var _ Freezing = (*Recent)(nil)

// NewRecent returns one that knows nothing yet.
func NewRecent() *Recent {
	releases, err := lru.New[script.Name, script.Release](maxRecent)
	if err != nil {
		panic(err) // of a size below 1 only
	}
	return &Recent{releases: releases, tenants: map[string]script.Tenant{}, usages: newUsages(nil)}
}

// Reset implements Projection.
func (r *Recent) Reset(s State) {
	r.releases.Purge()
	releases := slices.SortedFunc(slices.Values(s.Releases), func(a, b script.Release) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, release := range releases[max(0, len(releases)-maxRecent):] {
		r.releases.Add(release.Name, release)
	}
	tenants := make(map[string]script.Tenant, len(s.Tenants))
	for _, t := range s.Tenants {
		tenants[t.Name] = t
	}
	counted := newUsages(s.Releases)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenants, r.usages, r.freeze, r.ready = tenants, counted, s.Freeze, true
}

// Apply implements Projection.
func (r *Recent) Apply(t Transaction) {
	for _, release := range t.Releases {
		r.releases.Add(release.Name, release)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, release := range t.Releases {
		r.usages.put(release)
	}
	for _, tenant := range t.Tenants {
		r.tenants[tenant.Name] = tenant
	}
}

// Frozen implements Freezing.
func (r *Recent) Frozen(f script.Freeze) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freeze = f
}

// usage returns what the tenant has, as far as is known.
func (r *Recent) usage(tenant string) usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usages.tenants[tenant]
}

// onEvent returns how many scripts of the tenant take a place of the event, as far as is known.
func (r *Recent) onEvent(tenant, event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usages.events[tenantEvent{tenant, event}]
}

// basis returns what was known last of the script and its tenant; ok is false if that
// is too little to decide on.
func (r *Recent) basis(name script.Name) (b basis, ok bool) {
	if r == nil {
		return basis{}, false
	}
	if b.release, ok = r.releases.Get(name); !ok {
		return basis{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	tenant := r.tenants[name.Tenant] // revision 0: nothing was set
	freeze := r.freeze
	b.tenant = func() (script.Tenant, error) { return tenant, nil }
	b.freeze = func() (script.Freeze, error) { return freeze, nil }
	// No watch says when the collector removes a tombstone.
	return b, r.ready && !tenant.Deleted
}
