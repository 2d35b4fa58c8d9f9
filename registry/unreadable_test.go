package registry_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unreadable is a store in which one transaction cannot be read.
type unreadable struct {
	*memstore.Store
	bad script.Revision
}

func (u unreadable) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		for t, err := range u.Store.Watch(ctx, after) {
			if t.Revision == u.bad {
				yield(registry.Transaction{}, script.Errorf(script.Internal, "", "cannot be decoded"))
				return
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// TestFeedPassesWhatItCannotRead: one bad record does not stop the feed for ever,
// and the gap shows.
func TestFeedPassesWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := newBench(t), &recorder{}
		_, stop := runFeed(unreadable{b.store, 2}, p)
		defer stop()
		synctest.Wait()
		b.publish("one")
		b.publish("two, which cannot be read")
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of a synctest bubble
		b.publish("three")
		synctest.Wait()
		events, _ := p.seen()
		if len(events) != 2 || events[1].Revision != 3 || events[1].Previous != 2 {
			t.Errorf("events: %+v; want the first and the third, which follows the second", events)
		}
	})
}
