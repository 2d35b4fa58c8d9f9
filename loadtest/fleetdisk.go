package main

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fleetDisk has what the agents of one process keep, each thing once: thousands of
// agents that keep the same scripts then fit into one machine. What an agent has of it
// is its own, see agentDisk.
type fleetDisk struct {
	engine *lua.Engine

	mu       sync.RWMutex
	slots    map[string]int // of the keys of objects
	versions []keptVersion  // of all slots; the first is none
	latest   []uint32       // of each slot: the version that was kept last
	sources  map[script.Digest]*keptSource
}

// keptVersion is an object as some agent has kept it.
type keptVersion struct {
	object      script.Object
	fingerprint wire.Sum
	before      uint32 // the version of the slot that was kept before; 0: none
}

// keptSource is a source, and what the compiler says to it.
type keptSource struct {
	content []byte
	slot    int // of the first object that needed it; -1: none has
	compile func() error
}

func newFleetDisk() *fleetDisk {
	return &fleetDisk{engine: lua.New(), slots: map[string]int{}, versions: make([]keptVersion, 1), sources: map[script.Digest]*keptSource{}}
}

// keep returns the number of the version of the item.
func (d *fleetDisk) keep(item follow.Item) (slot int, version uint32) {
	revision := item.Object.Revision()
	d.mu.RLock()
	slot, version = d.find(item.Key, revision)
	d.mu.RUnlock()
	if version != 0 {
		return slot, version
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slot, version = d.find(item.Key, revision); version != 0 {
		return slot, version
	}
	if slot < 0 {
		slot = len(d.latest)
		d.slots[item.Key], d.latest = slot, append(d.latest, 0)
	}
	version = uint32(len(d.versions))
	d.versions = append(d.versions, keptVersion{
		object: item.Object, fingerprint: wire.FingerprintObject(item.Object), before: d.latest[slot],
	})
	d.latest[slot] = version
	for content := range item.Object.Contents {
		if s := d.sources[content.Digest]; s != nil && s.slot < 0 {
			s.slot = slot
		}
	}
	return slot, version
}

// find returns the slot of the key and the number of the version; -1 and 0 if there is
// none. d.mu is held.
func (d *fleetDisk) find(key string, revision script.Revision) (slot int, version uint32) {
	slot, known := d.slots[key]
	if !known {
		return -1, 0
	}
	for v := d.latest[slot]; v != 0; v = d.versions[v].before {
		if d.versions[v].object.Revision() == revision {
			return slot, v
		}
	}
	return slot, 0
}

// put keeps a source.
func (d *fleetDisk) put(digest script.Digest, content []byte) {
	d.mu.RLock()
	_, known := d.sources[digest]
	d.mu.RUnlock()
	if known {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.sources[digest]; known {
		return
	}
	d.sources[digest] = &keptSource{content: bytes.Clone(content), slot: -1}
}

// agentDisk is the disk and the tables of one agent: which version it has of each
// object. It is the State of its follower.
type agentDisk struct {
	*fleetDisk
	activated func(revision script.Revision, at time.Time) // gets what has gone live
	saved     func(at time.Time)                           // is called after each SaveCursor

	own     sync.Mutex
	has     []uint32 // versions by slot; 0: none
	sums    map[script.ObjectKind]wire.Sum
	cursor  follow.Cursor
	staging map[script.Digest]struct{} // sources that came since the last commit
}

var _ follow.State = (*agentDisk)(nil)

func newAgentDisk(shared *fleetDisk) *agentDisk {
	return &agentDisk{fleetDisk: shared, sums: map[script.ObjectKind]wire.Sum{}}
}

// copyFrom makes the disk one that has what the other agent of the process has.
func (a *agentDisk) copyFrom(other *agentDisk) {
	other.own.Lock()
	defer other.own.Unlock()
	a.has, a.sums, a.cursor = slices.Clone(other.has), maps.Clone(other.sums), other.cursor
}

// Cursor is follow.State's, as are the other methods that are exported.
func (a *agentDisk) Cursor() follow.Cursor {
	a.own.Lock()
	defer a.own.Unlock()
	return a.cursor
}

// SaveCursor keeps the cursor.
func (a *agentDisk) SaveCursor(c follow.Cursor) error {
	a.own.Lock()
	a.cursor = c
	a.own.Unlock()
	a.saved(time.Now())
	return nil
}

// live returns what the agent has in the slot; its object is empty if there is nothing.
// a.own and a.mu are held.
func (a *agentDisk) live(slot int) *keptVersion {
	if slot < 0 || slot >= len(a.has) {
		return &a.versions[0]
	}
	return &a.versions[a.has[slot]]
}

// of returns what the agent has with the key.
func (a *agentDisk) of(key string) (v keptVersion, ok bool) {
	a.own.Lock()
	defer a.own.Unlock()
	a.mu.RLock()
	defer a.mu.RUnlock()
	slot, known := a.slots[key]
	if !known {
		return v, false
	}
	v = *a.live(slot)
	return v, v.object != (script.Object{})
}

// Revision returns the revision of what is live.
func (a *agentDisk) Revision(key string) script.Revision {
	v, ok := a.of(key)
	if !ok {
		return 0
	}
	return v.object.Revision()
}

// Live yields the keys of what is live.
func (a *agentDisk) Live() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, version := range a.has {
			if version == 0 {
				continue
			}
			a.mu.RLock()
			key := a.versions[version].object.Key()
			a.mu.RUnlock()
			if !yield(key) {
				return
			}
		}
	}
}

// Incomplete returns nothing: this disk loses nothing.
func (a *agentDisk) Incomplete() []script.Object { return nil }

// HasSource reports whether the source came since the last commit, or a live object has it.
func (a *agentDisk) HasSource(digest script.Digest) bool {
	a.own.Lock()
	defer a.own.Unlock()
	if _, there := a.staging[digest]; there {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	source := a.sources[digest]
	if source == nil {
		return false
	}
	v := a.live(source.slot)
	if v.object == (script.Object{}) {
		return false
	}
	for content := range v.object.Contents {
		if content.Digest == digest {
			return true
		}
	}
	return false
}

// PutSources keeps the sources.
func (a *agentDisk) PutSources(sources map[script.Digest][]byte) error {
	for digest, content := range sources {
		a.put(digest, content)
	}
	a.own.Lock()
	defer a.own.Unlock()
	if a.staging == nil {
		a.staging = make(map[script.Digest]struct{}, len(sources))
	}
	for digest := range sources {
		a.staging[digest] = struct{}{}
	}
	return nil
}

// Prepare compiles the active version, unless another agent of the process has.
func (a *agentDisk) Prepare(_ context.Context, r script.Release, sources map[script.Digest][]byte, _ bool) error {
	digest := r.Active.Digest
	if content, given := sources[digest]; given {
		a.put(digest, content)
	}
	a.mu.Lock()
	source := a.sources[digest]
	if source == nil {
		a.mu.Unlock()
		return script.Errorf(script.Unavailable, "disk", "the source %v is not kept", digest)
	}
	if source.compile == nil {
		source.compile = sync.OnceValue(func() error {
			_, err := a.engine.Compile(engine.Source{Code: source.content, Entrypoint: r.Active.Entrypoint})
			return err
		})
	}
	compile := source.compile
	a.mu.Unlock()
	return compile()
}

// Commit makes the items live.
func (a *agentDisk) Commit(put []follow.Item, removed []string) error {
	for _, item := range put {
		slot, version := a.keep(item)
		a.swap(slot, version)
	}
	for _, key := range removed {
		a.mu.RLock()
		slot, known := a.slots[key]
		a.mu.RUnlock()
		if known {
			a.swap(slot, 0)
		}
	}
	a.own.Lock()
	a.staging = nil
	a.own.Unlock()
	now := time.Now()
	for _, item := range put {
		a.activated(item.Object.Revision(), now)
	}
	return nil
}

// swap puts the version, or nothing, in the place of what is live.
func (a *agentDisk) swap(slot int, version uint32) {
	a.own.Lock()
	defer a.own.Unlock()
	a.mu.RLock()
	defer a.mu.RUnlock()
	if slot >= len(a.has) {
		a.has = append(a.has, make([]uint32, max(len(a.latest), slot+1)-len(a.has))...)
	}
	if before := a.live(slot); before.object != (script.Object{}) {
		sum := a.sums[before.object.Kind()]
		sum.Remove(before.fingerprint)
		a.sums[before.object.Kind()] = sum
	}
	a.has[slot] = version
	if after := a.live(slot); after.object != (script.Object{}) {
		sum := a.sums[after.object.Kind()]
		sum.Add(after.fingerprint)
		a.sums[after.object.Kind()] = sum
	}
}

// Reseal does nothing: envelopes are not kept.
func (a *agentDisk) Reseal([]follow.Item) error { return nil }

// Keys returns no key of an envelope: the disk keeps no envelopes.
func (a *agentDisk) Keys() []string { return nil }

// Checksum returns the sum over what is live. It does not read it again, as a disk does
// not rot here: on a node that takes milliseconds at each beacon.
func (a *agentDisk) Checksum(kind script.ObjectKind, _ int, leftOut []string) wire.Sum {
	a.own.Lock()
	sum := a.sums[kind]
	a.own.Unlock()
	for _, key := range leftOut {
		if v, ok := a.of(key); ok {
			sum.Remove(v.fingerprint)
		}
	}
	return sum
}

// Check returns the fingerprint of what is live.
func (a *agentDisk) Check(key string) (wire.Sum, bool) {
	v, ok := a.of(key)
	return v.fingerprint, ok
}
