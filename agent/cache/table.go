package cache

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Release is a live release, ready to be called. It is immutable.
type Release struct {
	Name     script.Name
	Revision script.Revision
	Active   script.Version
	Pinned   bool
	Enabled  bool
	Trigger  script.Trigger
	Limits   script.Limits // defaults applied
	Config   []byte        // a JSON object; nil means {}

	editions []edition
	entry    atomic.Pointer[entry] // of the active program, while it is compiled
}

// edition is what running a retained version takes.
type edition struct {
	number uint64
	key    Key
}

// NewRelease returns r, which is not deleted, ready to be called.
func NewRelease(r script.Release) *Release {
	live := &Release{
		Name:     r.Name,
		Revision: r.Revision,
		Active:   r.Active,
		Pinned:   r.Pinned,
		Enabled:  r.Enabled,
		Trigger:  r.Settings.Trigger,
		Limits:   r.Settings.Limits.OrDefaults(),
		Config:   r.Settings.Config,
		editions: make([]edition, 0, len(r.Retained)),
	}
	live.Active.Engine = intern(r.Active.Engine)
	live.Active.Entrypoint = intern(r.Active.Entrypoint)
	for _, v := range r.Retained {
		live.editions = append(live.editions, edition{number: v.Number, key: Key{
			Engine: intern(v.Engine), Entrypoint: intern(v.Entrypoint), Digest: v.Digest,
		}})
	}
	return live
}

// intern makes the many copies of few words share their memory.
func intern(s string) string { return unique.Make(s).Value() }

// Retained returns the program's key of the version with the number.
func (r *Release) Retained(number uint64) (Key, bool) {
	for _, e := range r.editions {
		if e.number == number {
			return e.key, true
		}
	}
	return Key{}, false
}

// Numbers returns the numbers of the retained versions, in their order.
func (r *Release) Numbers() []uint64 {
	numbers := make([]uint64, len(r.editions))
	for i, e := range r.editions {
		numbers[i] = e.number
	}
	return numbers
}

// shards of the table: a change copies one of them.
const shards = 256

// Table holds the live releases. Reading takes no lock; it is safe for
// concurrent use.
type Table struct {
	seed    maphash.Seed
	writing sync.Mutex
	shards  [shards]atomic.Pointer[map[string]*Release] // by "tenant/name"; each map is immutable
	count   atomic.Int64
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].Store(&map[string]*Release{})
	}
	return t
}

// Get returns the live release of the script "tenant/name", or nil. It
// allocates nothing.
func (t *Table) Get(name string) *Release {
	return (*t.shards[t.shardOf(name)].Load())[name]
}

// Len returns the number of live releases.
func (t *Table) Len() int { return int(t.count.Load()) }

// Update puts releases in place of those with their names, and removes the
// scripts in gone. Each release is swapped at once; they are not swapped
// together. A call in flight finishes on the release that it began with.
func (t *Table) Update(put []*Release, gone []script.Name) {
	t.writing.Lock()
	defer t.writing.Unlock()
	changed := map[uint64]map[string]*Release{}
	shard := func(name string) map[string]*Release {
		i := t.shardOf(name)
		if changed[i] == nil {
			changed[i] = maps.Clone(*t.shards[i].Load())
		}
		return changed[i]
	}
	for _, r := range put {
		name := r.Name.String()
		shard(name)[name] = r
	}
	for _, n := range gone {
		name := n.String()
		delete(shard(name), name)
	}
	for i, m := range changed {
		t.count.Add(int64(len(m) - len(*t.shards[i].Load())))
		t.shards[i].Store(&m)
	}
}

// All yields the live releases in no particular order.
func (t *Table) All() iter.Seq[*Release] {
	return func(yield func(*Release) bool) {
		for i := range t.shards {
			for _, r := range *t.shards[i].Load() {
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
