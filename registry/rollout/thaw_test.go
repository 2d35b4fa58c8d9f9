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
	moves []registry.AdvanceRequest
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
	f.moves = append(f.moves, req)
	f.list = slices.DeleteFunc(f.list, func(c fleet.Candidacy) bool { return c.Release.Name == req.Name })
	return registry.Result{}, nil
}

func (f *thawed) AdvanceSet(context.Context, registry.AdvanceSetRequest) error {
	panic("there are no change sets")
}

// TestManyThaw: a candidate that fails, and one that is in the midst of its steps, do not wait until
// all have begun that a freeze held up, or a script that they come after.
func TestManyThaw(t *testing.T) {
	for name, held := range map[string]func(c *fleet.Candidacy){
		"a freeze": waiting,
		"another script": func(c *fleet.Candidacy) {
			c.Release.Candidate.Step, c.Release.Settings.Rollout = 0, script.Plan{After: []script.Name{{Tenant: "acme", Script: "lib"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { manyBegin(t, held) })
		})
	}
}

func manyBegin(t *testing.T, held func(c *fleet.Candidacy)) {
	t.Helper()
	const waited = 1000
	f := &thawed{}
	for i := range waited {
		c := candidacy()
		held(&c)
		c.Release.Name = script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
		f.list = append(f.list, c)
	}
	bad, last := candidacy(), candidacy()
	bad.Calls, bad.FailedCalls = 100, 100
	last.Release.Name, last.Release.Candidate.Step = script.Name{Tenant: "acme", Script: "last"}, 2
	last.Release.Settings.Rollout.MaxErrorPercent = nil
	f.list = append(f.list, bad, last)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := rollout.New(rollout.Config{Fleet: f, Registry: f, Clock: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	<-time.After(time.Hour)
	cancel()
	running.Wait()
	fails := slices.IndexFunc(f.moves, func(m registry.AdvanceRequest) bool { return m.Move.Failed != "" })
	promotes := slices.IndexFunc(f.moves, func(m registry.AdvanceRequest) bool { return m.Name == last.Release.Name })
	if len(f.moves) != waited+2 || fails < 0 || fails >= 16 || promotes < 0 || promotes >= 16 {
		t.Errorf("of %d moves number %d ends what fails, and number %d is in the midst of its steps", len(f.moves), fails+1, promotes+1)
	}
}
