package cache

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// shards of the table: a change copies one of them.
const shards = 256

// Table holds the live releases. Reading takes no lock; it is safe for
// concurrent use.
type Table struct {
	seed    maphash.Seed
	writing sync.Mutex
	live    atomic.Pointer[view]
	count   atomic.Int64

	sum        wire.Sum            // of the releases' fingerprints; guarded by writing, as is what follows
	next       int                 // the shard to look at again next
	candidates map[string]*Release // those that have one, by "tenant/name"
	events     events
	past       past
}

// view is what is live at one moment. It is immutable: a change makes another one.
type view struct {
	releases [shards]map[string]*Release // by "tenant/name"
	chains   [shards]map[event]*chain

	personals personals
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed(), candidates: map[string]*Release{}, events: events{}}
	t.live.Store(&view{})
	return t
}

// Get returns the live release of the script "tenant/name", or nil. It
// allocates nothing.
func (t *Table) Get(name string) *Release {
	return t.live.Load().releases[t.shardOf(name)][name]
}

// Revision returns the revision of the live release of the script "tenant/name"; 0
// if there is none.
func (t *Table) Revision(name string) script.Revision {
	if r := t.Get(name); r != nil {
		return r.Revision
	}
	return 0
}

// Names yields the scripts with live releases, each "tenant/name", in no particular
// order.
func (t *Table) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range t.All() {
			if !yield(r.Name.String()) {
				return
			}
		}
	}
}

// Len returns the number of live releases.
func (t *Table) Len() int { return int(t.count.Load()) }

// Update puts releases in place of those with their names, and removes the
// scripts in gone, all at once. A call in flight finishes on the release that it began with.
func (t *Table) Update(put []*Release, gone []script.Name) {
	t.writing.Lock()
	defer t.writing.Unlock()
	before, changed, chains := t.live.Load(), map[uint64]map[string]*Release{}, map[event]struct{}{}
	personals := personalsEdit{personals: before.personals}
	replace := func(name string, old, with *Release) {
		personals.replace(old, with)
		if old != nil {
			t.sum.Remove(old.counted)
			t.past.keep(old)
		}
		if with != nil {
			t.sum.Add(with.counted)
		}
		t.events.replace(name, old, with, chains)
	}
	shard := func(name string) map[string]*Release {
		i := t.shardOf(name)
		if changed[i] == nil {
			if changed[i] = maps.Clone(before.releases[i]); changed[i] == nil {
				changed[i] = map[string]*Release{}
			}
		}
		return changed[i]
	}
	for _, r := range put {
		name := r.Name.String()
		m := shard(name)
		replace(name, m[name], r)
		r.goOn(m[name])
		m[name] = r
		delete(t.candidates, name)
		if r.Candidate != nil {
			t.candidates[name] = r
		}
	}
	for _, n := range gone {
		name := n.String()
		m := shard(name)
		replace(name, m[name], nil)
		delete(m, name)
		delete(t.candidates, name)
	}
	after := *before
	after.personals = personals.personals
	for i, m := range changed {
		t.count.Add(int64(len(m) - len(before.releases[i])))
		after.releases[i] = m
	}
	t.rechain(&after, chains)
	t.live.Store(&after)
}

// Candidates returns the live releases that have a candidate, in no particular order.
func (t *Table) Candidates() []*Release {
	t.writing.Lock()
	defer t.writing.Unlock()
	return slices.AppendSeq(make([]*Release, 0, len(t.candidates)), maps.Values(t.candidates))
}

// Checksum returns the sum of the fingerprints of the live releases, but for the
// scripts left out. Before that it makes the fingerprints of at least `again` of
// them anew, each time of the next ones, or of all if there are no more: so a bit
// that flipped in memory shows in the sum.
func (t *Table) Checksum(again int, leftOut ...string) wire.Sum {
	t.writing.Lock()
	defer t.writing.Unlock()
	if again >= t.Len() {
		t.sum = wire.Sum{} // which may have flipped, too
		for r := range t.All() {
			r.counted = r.Fingerprint()
			t.sum.Add(r.counted)
		}
		again = 0
	}
	for looked := 0; looked < again; t.next = (t.next + 1) % shards {
		m := t.live.Load().releases[t.next]
		for _, r := range m {
			now := r.Fingerprint()
			t.sum.Remove(r.counted)
			t.sum.Add(now)
			r.counted = now
		}
		looked += len(m)
	}
	sum := t.sum
	for _, name := range leftOut {
		if r := t.Get(name); r != nil {
			sum.Remove(r.counted)
		}
	}
	return sum
}

// Check returns the fingerprint of the live release of the script "tenant/name" as
// it is in memory now, and whether it is what it was when it went live. Without one,
// it returns zero and false.
func (t *Table) Check(name string) (fingerprint wire.Sum, sound bool) {
	r := t.Get(name)
	if r == nil {
		return wire.Sum{}, false
	}
	fingerprint = r.Fingerprint()
	return fingerprint, fingerprint == r.made
}

// All yields the live releases in no particular order.
func (t *Table) All() iter.Seq[*Release] {
	return func(yield func(*Release) bool) {
		for _, m := range t.live.Load().releases {
			for _, r := range m {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Sorted returns the live releases in order of tenant and name.
func (t *Table) Sorted() []*Release {
	all := slices.AppendSeq(make([]*Release, 0, t.Len()), t.All())
	slices.SortFunc(all, func(a, b *Release) int {
		return cmp.Or(cmp.Compare(a.Name.Tenant, b.Name.Tenant), cmp.Compare(a.Name.Script, b.Name.Script))
	})
	return all
}

func (t *Table) shardOf(name string) uint64 { return maphash.String(t.seed, name) % shards }
