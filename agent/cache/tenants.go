package cache

import (
	"iter"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Tenants holds the live settings of those tenants for which some were set. Reading
// takes no lock; it is safe for concurrent use.
type Tenants struct {
	live atomic.Pointer[map[string]*tenant] // by name; immutable

	writing sync.Mutex
	ledger  ledger[*tenant] // guarded by writing
}

// tenant is a live one. It is immutable, but for what is guarded.
type tenant struct {
	name     string
	revision script.Revision
	set      script.TenantSettings
	settings script.TenantSettings // defaults applied

	made  wire.Sum // its fingerprint when it was made
	count tally    // guarded by Tenants.writing
}

// NewTenants returns an empty table: the defaults hold for everybody.
func NewTenants() *Tenants {
	t := &Tenants{}
	t.live.Store(&map[string]*tenant{})
	return t
}

var defaultSettings = script.TenantSettings{}.OrDefaults()

// Settings returns what holds for the tenant, defaults applied. It allocates nothing.
func (t *Tenants) Settings(name string) script.TenantSettings {
	if found := t.find(name); found != nil {
		return found.settings
	}
	return defaultSettings
}

// Update puts tenants in place of those with their names, and takes away the settings
// of those that are gone, all at once.
func (t *Tenants) Update(put []script.Tenant, gone []string) {
	if len(put)+len(gone) == 0 {
		return
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	all := maps.Clone(*t.live.Load())
	for _, p := range put {
		with := &tenant{name: intern(p.Name), revision: p.Revision, set: p.Settings, settings: p.Settings.OrDefaults()}
		with.made = with.Fingerprint()
		t.ledger.replace(all[p.Name], with)
		all[with.name] = with
	}
	for _, name := range gone {
		t.ledger.replace(all[name], nil)
		delete(all, name)
	}
	t.live.Store(&all)
}

// Fingerprint implements record.
func (t *tenant) Fingerprint() wire.Sum {
	settings := t.set
	if !t.settings.Equal(settings.OrDefaults()) {
		settings = t.settings // what calls get is what counts
	}
	return wire.FingerprintObject(script.Object{Tenant: &script.Tenant{Name: t.name, Revision: t.revision, Settings: settings}})
}

func (t *tenant) tally() *tally { return &t.count }

// Revision returns the revision of the tenant's live settings; 0 if there are none.
func (t *Tenants) Revision(name string) script.Revision {
	if found := t.find(name); found != nil {
		return found.revision
	}
	return 0
}

// Names yields the tenants for which something was set, in no particular order.
func (t *Tenants) Names() iter.Seq[string] { return maps.Keys(*t.live.Load()) }

// Checksum is Table.Checksum for the settings of tenants.
func (t *Tenants) Checksum(again int, leftOut ...string) wire.Sum {
	t.writing.Lock()
	defer t.writing.Unlock()
	all := *t.live.Load()
	sum := t.ledger.checksum(again, len(all), maps.Values(all))
	for _, name := range leftOut {
		if found := all[name]; found != nil {
			sum.Remove(found.count.sum)
		}
	}
	return sum
}

// Check is Table.Check for the settings of the tenant.
func (t *Tenants) Check(name string) (fingerprint wire.Sum, sound bool) {
	found := t.find(name)
	if found == nil {
		return wire.Sum{}, false
	}
	fingerprint = found.Fingerprint()
	return fingerprint, fingerprint == found.made
}

func (t *Tenants) find(name string) *tenant { return (*t.live.Load())[name] }
