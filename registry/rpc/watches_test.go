package rpc_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWatchesOfManyScripts: a caller is charged for what the registry keeps for its watches, which
// is megabytes for each watch of many scripts, and gets that back.
func TestWatchesOfManyScripts(t *testing.T) {
	needs.NoRace(t)
	b := newBench(t)
	if err := b.fleet.Reached(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	const scripts, watches = 10_000, 40
	state := registry.State{Fleet: b.id, Head: scripts}
	for i := range scripts {
		state.Releases = append(state.Releases, script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 1)})
	}
	b.fleet.Reset(state)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(ctx context.Context) error {
		w, err := b.WatchStatus(ctx, &registryv1.WatchStatusRequest{Tenant: "acme", Changes: true})
		if err == nil {
			_, err = w.Recv()
		}
		return err
	}
	for range watches {
		if err := watch(ctx); err != nil {
			if got := detail(t, err); got.GetKind() != string(script.Overloaded) {
				t.Errorf("%v; want it to be overloaded", err)
			}
			break
		}
	}
	if watch(ctx) == nil {
		t.Errorf("%d watches of %d scripts are served", watches, scripts)
	}
	cancel()
	another, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	for watch(another) != nil {
		if another.Err() != nil {
			t.Fatal("watches that have ended leave no room")
		}
	}
}
