package registry_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// by makes who writes, and why, another.
func by(author, note string) func(*registry.PublishRequest) {
	return func(r *registry.PublishRequest) { r.Author, r.Note = author, note }
}

// wantUnpinned checks which pin a publish lifted; a version of 0 means none.
func wantUnpinned(t *testing.T, r registry.PublishResult, version uint64, author, note string) {
	t.Helper()
	switch {
	case version == 0 && r.Unpinned != nil:
		t.Errorf("lifted %+v, want no pin", *r.Unpinned)
	case version != 0 && r.Unpinned == nil:
		t.Errorf("lifted no pin, want that of v%d", version)
	case version != 0 && (r.Unpinned.Version != version || r.Unpinned.Author != author || r.Unpinned.Note != note):
		t.Errorf("lifted %+v, want v%d by %s: %s", *r.Unpinned, version, author, note)
	}
}

// TestPublishSaysWhatItUnpinned: whoever publishes to a script that somebody pinned learns
// of it, also without having read the script before.
func TestPublishSaysWhatItUnpinned(t *testing.T) {
	for name, lift := range map[string]func(b *bench, opts ...func(*registry.PublishRequest)) registry.PublishResult{
		"a new version": func(b *bench, opts ...func(*registry.PublishRequest)) registry.PublishResult {
			return b.publish("three", append(opts, pin(0))...)
		},
		"the latest again": func(b *bench, opts ...func(*registry.PublishRequest)) registry.PublishResult {
			return b.publish("two", append(opts, pin(0))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			wantUnpinned(t, b.publish("one", pin(0)), 0, "", "")
			wantUnpinned(t, b.publish("two", pin(0)), 0, "", "")
			rollback := write(route)
			rollback.Author, rollback.Note = "bo", "on-call: carts lost"
			if _, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: rollback}); err != nil {
				t.Fatal(err)
			}
			later := write(route)
			later.Author = "cy"
			if _, err := b.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: later}); err != nil {
				t.Fatal(err)
			}
			dry := lift(b, func(r *registry.PublishRequest) { r.DryRun = true })
			wantUnpinned(t, dry, 1, "bo", "on-call: carts lost")
			wantUnpinned(t, b.publish("two"), 0, "", "") // which keeps the pin
			id := rand.Text()
			again := func(r *registry.PublishRequest) { r.RequestID = id }
			wantUnpinned(t, lift(b, again), 1, "bo", "on-call: carts lost")
			b.publish("four", pin(0))
			wantUnpinned(t, lift(b, again), 1, "bo", "on-call: carts lost") // the answer was lost
			wantUnpinned(t, lift(b), 0, "", "")
		})
	}
}

// TestPublishThatPinsAnother: a manifest that names the version knows of it.
func TestPublishThatPinsAnother(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	b.publish("two", pin(1))
	wantUnpinned(t, b.publish("two", pin(2)), 0, "", "")
	wantUnpinned(t, b.publish("three", pin(0), by("ann", "")), 2, "ann", "why")
}

// TestUnpinnedCandidate: the change says whether the pinned version was live: one that is on
// its way, or failed, is the candidate still.
func TestUnpinnedCandidate(t *testing.T) {
	for steering, want := range map[registry.Steering][2]uint64{registry.Promote: {2, 0}, registry.Abort: {1, 2}} {
		for _, known := range []bool{true, false} {
			b := newBench(t)
			if !known {
				b.Registry = registry.New(registry.Config{Store: forgetful{b.store}, Engines: map[string]engine.Checker{"lua": b.checker}})
			}
			b.publish("one")
			b.publish("two", settings(trial), pin(2), by("bo", "the new one"))
			if _, err := b.steer(steering, write(route)); err != nil {
				t.Fatal(err)
			}
			got := b.publish("three", pin(0)).Unpinned
			if got == nil || got.Version != want[0] || got.Candidate != want[1] || (got.Author == "bo") != known {
				t.Errorf("steering %v, history known %t: lifted %+v, want version %d and candidate %d", steering, known, got, want[0], want[1])
			}
		}
	}
}

// forgetful is a store whose history cannot be read.
type forgetful struct{ *memstore.Store }

func (forgetful) History(context.Context, script.Name) ([]script.HistoryEntry, error) {
	return nil, script.Errorf(script.Unavailable, "", "no history")
}

// TestUnpinnedWithoutHistory: a publish that was made is not called failed because nobody
// knows who pinned.
func TestUnpinnedWithoutHistory(t *testing.T) {
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: forgetful{b.store}, Engines: map[string]engine.Checker{"lua": b.checker}})
	b.publish("one", pin(1))
	wantUnpinned(t, b.publish("two", pin(0)), 1, "", "")
}
