package cache

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Values holds the live values of all tenants, and the contents of those in use. It reads each
// content once, and all callers share it. Its methods are safe for concurrent use, and a read of a
// cached value takes no lock.
type Values struct {
	contents *contents
	live     atomic.Pointer[map[string]*shelf] // by tenant; immutable

	writing sync.Mutex
	ledger  ledger[*value] // guarded by writing, as is count
	count   int
}

// shelf has all values of a tenant. It is immutable: a reader sees all of a change, or nothing.
type shelf struct {
	byKey map[string]*value
	keys  []string // sorted
}

// value is a live value. All fields are immutable, except count and held.
type value struct {
	tenant, key string
	revision    script.Revision
	digest      script.Digest
	size        int

	made  wire.Sum             // its fingerprint when it went live
	count tally                // guarded by Values.writing
	held  atomic.Pointer[held] // while its content is in memory
}

// NewValues returns an empty table. It reads contents from the reader, and caches up to budget
// bytes of them.
func NewValues(from Reader, budget int64) *Values {
	v := &Values{contents: newContents(from, budget)}
	v.live.Store(&map[string]*shelf{})
	return v
}

// Value returns the content of the tenant's value with the key; ok is false if there
// is none. Callers share the content and must not change it. A cached content costs no
// allocation; Value reads others from disk. An error is of kind Unavailable: the value
// exists, and cannot be read now.
func (v *Values) Value(tenant, key string) (content []byte, ok bool, err error) {
	found := v.find(tenant, key)
	if found == nil {
		return nil, false, nil
	}
	if h := found.held.Load(); h != nil {
		if content := h.get(); content != nil {
			return *content, true, nil
		}
	}
	h, content, err := v.contents.load(found.digest)
	if err != nil {
		return nil, false, err
	}
	found.held.Store(h)
	return content, true, nil
}

// Staged returns the content with the digest, which a change set stages for a value. It is shared
// and cached like the content of a live value. Errors have the same kind.
func (v *Values) Staged(d script.Digest) ([]byte, error) {
	if _, content := v.contents.lookup(d); content != nil {
		return *content, nil
	}
	_, content, err := v.contents.load(d)
	return content, err
}

// Keys returns at most limit keys of the tenant's values that begin with prefix and
// come after the key `after`, sorted.
func (v *Values) Keys(tenant, prefix, after string, limit int) []string {
	s := (*v.live.Load())[tenant]
	if s == nil || limit <= 0 {
		return nil
	}
	first, _ := slices.BinarySearch(s.keys, prefix)
	if after >= prefix {
		at, there := slices.BinarySearch(s.keys, after)
		if there {
			at++
		}
		first = max(first, at)
	}
	last := first
	for last < len(s.keys) && last-first < limit && strings.HasPrefix(s.keys[last], prefix) {
		last++
	}
	return slices.Clone(s.keys[first:last])
}

// Get returns the tenant's value with the key, without its author and time; ok is false if
// there is none.
func (v *Values) Get(key script.ValueKey) (found script.Value, ok bool) {
	if r := v.find(key.Tenant, key.Key); r != nil {
		return r.script(), true
	}
	return script.Value{}, false
}

// Len returns the number of live values.
func (v *Values) Len() int {
	v.writing.Lock()
	defer v.writing.Unlock()
	return v.count
}

// Bytes returns how many bytes of contents are in memory.
func (v *Values) Bytes() int64 { return v.contents.holds() }

// Update replaces the values with the same keys, and removes those that are gone, in one step.
func (v *Values) Update(put []script.Value, gone []script.ValueKey) {
	if len(put)+len(gone) == 0 {
		return
	}
	v.writing.Lock()
	defer v.writing.Unlock()
	all := maps.Clone(*v.live.Load())
	changed := map[string]map[string]*value{}
	of := func(tenant string) map[string]*value {
		if changed[tenant] == nil {
			changed[tenant] = map[string]*value{}
			if s := all[tenant]; s != nil {
				changed[tenant] = maps.Clone(s.byKey)
			}
		}
		return changed[tenant]
	}
	for _, p := range put {
		shelf := of(p.Key.Tenant)
		with := newValue(p)
		v.ledger.replace(shelf[p.Key.Key], with)
		shelf[with.key] = with
	}
	for _, k := range gone {
		shelf := of(k.Tenant)
		v.ledger.replace(shelf[k.Key], nil)
		delete(shelf, k.Key)
	}
	for tenant, byKey := range changed {
		if old := all[tenant]; old != nil {
			v.count -= len(old.byKey)
		}
		v.count += len(byKey)
		if len(byKey) == 0 {
			delete(all, tenant)
			continue
		}
		all[tenant] = &shelf{byKey: byKey, keys: sortedKeys(byKey, all[tenant])}
	}
	v.live.Store(&all)
}

// sortedKeys returns the keys in order. It reuses the keys of the shelf before if they are the same.
func sortedKeys(byKey map[string]*value, before *shelf) []string {
	if before != nil && len(before.keys) == len(byKey) &&
		!slices.ContainsFunc(before.keys, func(key string) bool { return byKey[key] == nil }) {
		return before.keys
	}
	return slices.Sorted(maps.Keys(byKey))
}

func newValue(from script.Value) *value {
	v := &value{
		tenant: intern(from.Key.Tenant), key: strings.Clone(from.Key.Key),
		revision: from.Revision, digest: from.Digest, size: from.Size,
	}
	v.made = v.Fingerprint()
	return v
}

func (v *value) script() script.Value {
	return script.Value{
		Key: script.ValueKey{Tenant: v.tenant, Key: v.key}, Revision: v.revision, Digest: v.digest, Size: v.size,
	}
}

// Fingerprint implements record.
func (v *value) Fingerprint() wire.Sum {
	s := v.script()
	return wire.FingerprintObject(script.Object{Value: &s})
}

func (v *value) tally() *tally { return &v.count }

// Revision returns the revision of the live value "tenant/key"; 0 if there is none.
func (v *Values) Revision(name string) script.Revision {
	if r := v.named(name); r != nil {
		return r.revision
	}
	return 0
}

// Names yields the names of the live values, each "tenant/key", in no particular
// order.
func (v *Values) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range v.all() {
			if !yield(r.tenant + "/" + r.key) {
				return
			}
		}
	}
}

// All yields what Get returns of each live value, in no particular order.
func (v *Values) All() iter.Seq[script.Value] {
	return func(yield func(script.Value) bool) {
		for r := range v.all() {
			if !yield(r.script()) {
				return
			}
		}
	}
}

// Checksum is Table.Checksum for values. leftOut has names "tenant/key".
func (v *Values) Checksum(again int, leftOut ...string) wire.Sum {
	v.writing.Lock()
	defer v.writing.Unlock()
	sum := v.ledger.checksum(again, v.count, v.all())
	for _, name := range leftOut {
		if r := v.named(name); r != nil {
			sum.Remove(r.count.sum)
		}
	}
	return sum
}

// Check is Table.Check for the value "tenant/key".
func (v *Values) Check(name string) (fingerprint wire.Sum, sound bool) {
	r := v.named(name)
	if r == nil {
		return wire.Sum{}, false
	}
	fingerprint = r.Fingerprint()
	return fingerprint, fingerprint == r.made
}

func (v *Values) find(tenant, key string) *value {
	s := (*v.live.Load())[tenant]
	if s == nil {
		return nil
	}
	return s.byKey[key]
}

func (v *Values) named(name string) *value {
	tenant, key, _ := strings.Cut(name, "/")
	return v.find(tenant, key)
}

func (v *Values) all() iter.Seq[*value] {
	return func(yield func(*value) bool) {
		for _, s := range *v.live.Load() {
			for _, r := range s.byKey {
				if !yield(r) {
					return
				}
			}
		}
	}
}
