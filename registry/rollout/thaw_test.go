package rollout_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// thawed is a fleet, and the registry that makes its moves: many candidates have waited for the end
// of a freeze, and the calls of the last one fail.
type thawed struct {
	mu    sync.Mutex
	list  []fleet.Candidacy
	moves []registry.Move
}

func (f *thawed) Changed() <-chan struct{} { return nil }

func (f *thawed) Candidacies() []fleet.Candidacy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func (f *thawed) Buckets(script.Name) (c fleet.Candidacy, buckets []uint32, ok bool) { return }

func (f *thawed) GateAnswered(script.Name, fleet.GateAnswer) {}

func (f *thawed) Advance(_ context.Context, req registry.AdvanceRequest) (registry.Result, error) {
	<-time.After(10 * time.Millisecond) // as etcd takes
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves = append(f.moves, req.Move)
	f.list = slices.DeleteFunc(f.list, func(c fleet.Candidacy) bool { return c.Release.Name == req.Name })
	return registry.Result{}, nil
}

func (f *thawed) AdvanceSet(context.Context, registry.AdvanceSetRequest) error { panic("there are no change sets") }

// TestManyThaw: a candidate that fails does not wait until all that a freeze held up have begun.
func TestManyThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waited = 1000
		f := &thawed{}
		for i := range waited {
			c := candidacy()
			waiting(&c)
			c.Release.Name = script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
			f.list = append(f.list, c)
		}
		bad := candidacy()
		bad.Calls, bad.FailedCalls = 100, 100
		f.list = append(f.list, bad)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := rollout.New(rollout.Config{Fleet: f, Registry: f, Clock: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		<-time.After(time.Hour)
		cancel()
		running.Wait()
		at := slices.IndexFunc(f.moves, func(m registry.Move) bool { return m.Failed != "" })
		if len(f.moves) != waited+1 || at < 0 || at >= 16 {
			t.Errorf("of %d moves number %d ends what fails", len(f.moves), at+1)
		}
	})
}
