package sim

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// storeFaults say what happens between a replica and the store.
type storeFaults struct {
	cut    bool          // the store does not answer
	hang   bool          // it takes what it is asked, and does not answer
	fail   float64       // chance that a question fails
	forget float64       // chance that a commit happens and its answer is lost
	slow   time.Duration // at most, of each question
}

// storeLink is a replica's connection to the store, which is the same for all.
type storeLink struct {
	registry.Store
	registry.Garbage
	groups *groupTable
	memos  *memoTable
	w      *world
	name   string

	mu      sync.Mutex
	faults  storeFaults
	count   uint64
	changed chan struct{} // closed when the faults change
}

var (
	_ registry.Store   = (*storeLink)(nil)
	_ registry.Garbage = (*storeLink)(nil)
)

func (l *storeLink) set(f storeFaults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *storeLink) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults.cut || l.faults.hang
}

var errNoStore = script.Errorf(script.Unavailable, "", "the store cannot be reached")

// pass is the way to the store. lost: the answer does not come back.
func (l *storeLink) pass(ctx context.Context) (lost bool, err error) {
	l.mu.Lock()
	l.count++
	r := source(l.w.seed, l.name, l.count)
	f := l.faults
	l.mu.Unlock()
	if err := rest(ctx, latency+within(r, f.slow)); err != nil {
		return false, err
	}
	for {
		l.mu.Lock()
		f, changed := l.faults, l.changed
		l.mu.Unlock()
		if f.cut || r.Float64() < f.fail {
			return false, errNoStore
		}
		if !f.hang {
			return r.Float64() < f.forget, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, script.Errorf(script.Unavailable, "", "the store does not answer: %w", ctx.Err())
		}
	}
}

// rest waits, on the virtual clock.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return script.Errorf(script.Unavailable, "", "given up: %w", ctx.Err())
	}
}

// Fleet implements registry.Store.
func (l *storeLink) Fleet(ctx context.Context) (string, error) {
	if _, err := l.pass(ctx); err != nil {
		return "", err
	}
	return l.Store.Fleet(ctx)
}

// Head implements registry.Store.
func (l *storeLink) Head(ctx context.Context) (script.Revision, error) {
	if _, err := l.pass(ctx); err != nil {
		return 0, err
	}
	return l.Store.Head(ctx)
}

// Release implements registry.Store.
func (l *storeLink) Release(ctx context.Context, name script.Name) (script.Release, error) {
	if _, err := l.pass(ctx); err != nil {
		return script.Release{}, err
	}
	return l.Store.Release(ctx, name)
}

// Version implements registry.Store.
func (l *storeLink) Version(ctx context.Context, name script.Name, number uint64) (script.Version, error) {
	if _, err := l.pass(ctx); err != nil {
		return script.Version{}, err
	}
	return l.Store.Version(ctx, name, number)
}

// Sources implements registry.Store.
func (l *storeLink) Sources(ctx context.Context, digests []script.Digest) ([]registry.Source, error) {
	if _, err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.Store.Sources(ctx, digests)
}

// Request implements registry.Store.
func (l *storeLink) Request(ctx context.Context, name script.Name, id string) (registry.Done, bool, error) {
	if _, err := l.pass(ctx); err != nil {
		return registry.Done{}, false, err
	}
	return l.Store.Request(ctx, name, id)
}

// NoteRequest implements registry.Store.
func (l *storeLink) NoteRequest(ctx context.Context, guard script.Revision, id string, done registry.Done) error {
	lost, err := l.pass(ctx)
	if err != nil {
		return err
	}
	err = l.Store.NoteRequest(ctx, guard, id, done)
	if lost {
		return errNoStore
	}
	return err
}

// Commit implements registry.Store.
func (l *storeLink) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	lost, err := l.pass(ctx)
	if err != nil {
		return 0, err
	}
	revision, err := l.Store.Commit(ctx, c)
	if lost {
		return 0, errNoStore
	}
	return revision, err
}

// Snapshot implements registry.Store.
func (l *storeLink) Snapshot(ctx context.Context) (registry.Snapshot, error) {
	if _, err := l.pass(ctx); err != nil {
		return registry.Snapshot{}, err
	}
	return l.Store.Snapshot(ctx)
}

// Watch implements registry.Store. While the store is cut off or hangs, nothing is
// yielded; a watch that is cut off fails, and one that hangs goes on later.
func (l *storeLink) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		for t, err := range l.Store.Watch(ctx, after) {
			if err == nil {
				_, err = l.pass(ctx)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Tombstones implements registry.Garbage.
func (l *storeLink) Tombstones(ctx context.Context, before time.Time) iter.Seq2[script.Object, error] {
	return func(yield func(script.Object, error) bool) {
		if _, err := l.pass(ctx); err != nil {
			yield(script.Object{}, err)
			return
		}
		for o, err := range l.Garbage.Tombstones(ctx, before) {
			if !yield(o, err) {
				return
			}
		}
	}
}

// Purge implements registry.Garbage.
func (l *storeLink) Purge(ctx context.Context, tombstone script.Object) error {
	lost, err := l.pass(ctx)
	if err != nil {
		return err
	}
	if err := l.Garbage.Purge(ctx, tombstone); err != nil || !lost {
		return err
	}
	return errNoStore
}

// Discard implements registry.Garbage.
func (l *storeLink) Discard(ctx context.Context, b registry.Blob) (bool, error) {
	lost, err := l.pass(ctx)
	if err != nil {
		return false, err
	}
	done, err := l.Garbage.Discard(ctx, b)
	if lost {
		return false, errNoStore
	}
	return done, err
}
