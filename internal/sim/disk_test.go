package sim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/script"
)

// disk is what is left of an agent after a crash.
type disk struct {
	seed uint64
	name string

	mu      sync.Mutex
	faults  diskFaults
	count   uint64
	entries map[string]follow.Item // by key
	sources map[script.Digest][]byte
	cursor  follow.Cursor
}

// diskFaults say what happens to writes.
type diskFaults struct {
	full bool          // all fail
	fail float64       // chance that one fails
	slow time.Duration // at most, of each
}

func newDisk(seed uint64, name string) *disk {
	return &disk{seed: seed, name: name, entries: map[string]follow.Item{}, sources: map[script.Digest][]byte{}}
}

func (d *disk) set(f diskFaults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

var errNoSpace = errors.New("no space left on device")

// write waits as long as a write takes, and fails as often. ctx is done when the
// agent's process dies: what it is writing then may be on disk, or not.
func (d *disk) write(ctx context.Context) (*rand.Rand, error) {
	d.mu.Lock()
	d.count++
	r := source(d.seed, d.name, d.count)
	f := d.faults
	d.mu.Unlock()
	if f.slow > 0 {
		_ = rest(ctx, within(r, f.slow))
	}
	if f.full || r.Float64() < f.fail {
		return r, errNoSpace
	}
	return r, nil
}

var errDead = errors.New("the process is dead")

// commit keeps entries and removes others, one after another: after an error, or
// the death of the process, each may have happened or not.
func (d *disk) commit(ctx context.Context, put []follow.Item, removed []string) error {
	r, err := d.write(ctx)
	if ctx.Err() != nil {
		err = errDead
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, item := range put {
		if item.Sealed != nil && (err == nil || r.IntN(2) == 0) {
			d.entries[item.Key] = item
		}
	}
	for _, key := range removed {
		if err == nil || r.IntN(2) == 0 {
			delete(d.entries, key)
		}
	}
	return err
}

// reseal keeps items in other envelopes, where there is an item already.
func (d *disk) reseal(ctx context.Context, items []follow.Item) error {
	d.mu.Lock()
	there := slices.DeleteFunc(slices.Clone(items), func(item follow.Item) bool {
		had, ok := d.entries[item.Key]
		return !ok || had.SealedBy == item.SealedBy || had.Object.Revision() != item.Object.Revision()
	})
	d.mu.Unlock()
	if len(there) == 0 {
		return nil
	}
	return d.commit(ctx, there, nil)
}

// keys are the ids of those that have signed what is kept.
func (d *disk) keys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := map[string]struct{}{}
	for _, item := range d.entries {
		ids[item.SealedBy] = struct{}{}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (d *disk) putSources(ctx context.Context, sources map[script.Digest][]byte) error {
	r, err := d.write(ctx)
	if ctx.Err() != nil {
		err = errDead
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, digest := range slices.SortedFunc(maps.Keys(sources), compareDigests) {
		if err == nil || r.IntN(2) == 0 {
			d.sources[digest] = sources[digest]
		}
	}
	return err
}

func compareDigests(a, b script.Digest) int { return slices.Compare(a[:], b[:]) }

func (d *disk) saveCursor(ctx context.Context, c follow.Cursor) error {
	if _, err := d.write(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errDead
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cursor = c
	return nil
}

func (d *disk) has(digest script.Digest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.sources[digest]
	return ok
}

// Content implements cache.Reader.
func (d *disk) Content(digest script.Digest) ([]byte, error) {
	if content := d.source(digest); content != nil {
		return content, nil
	}
	return nil, script.Errorf(script.Unavailable, "", "it is not there")
}

func (d *disk) source(digest script.Digest) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sources[digest]
}

// crash is how a disk comes out of the crash of its node.
type crash int

const (
	crashClean  crash = iota
	crashClean2       // as often as all others together
	crashClean3
	crashTorn   // an entry cannot be read any more
	crashCursor // nor the cursor
	crashSource // a source is gone
	crashEmpty  // everything is
	crashes
)

func (c crash) String() string {
	switch c {
	case crashTorn:
		return "an entry is torn"
	case crashCursor:
		return "the cursor is lost"
	case crashSource:
		return "a source is lost"
	case crashEmpty:
		return "the disk is lost"
	}
	return "the disk is whole"
}

// damage does to the disk what the crash does. Who finds an entry or the cursor
// missing believes the cursor no more: that is what package store does.
func (d *disk) damage(c crash, r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch c {
	case crashTorn:
		if keys := slices.Sorted(maps.Keys(d.entries)); len(keys) > 0 {
			delete(d.entries, keys[r.IntN(len(keys))])
		}
		d.cursor = follow.Cursor{}
	case crashCursor:
		d.cursor = follow.Cursor{}
	case crashSource:
		digests := slices.SortedFunc(maps.Keys(d.sources), compareDigests)
		if len(digests) > 0 {
			delete(d.sources, digests[r.IntN(len(digests))])
		}
	case crashEmpty:
		clear(d.entries)
		clear(d.sources)
		d.cursor = follow.Cursor{}
	}
}
