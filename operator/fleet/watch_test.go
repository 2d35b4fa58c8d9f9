package fleet_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// registry is a fake that reports what say sets. Its watch ends when broken is closed.
type registry struct {
	mu      sync.Mutex
	status  registryclient.FleetStatus
	changed chan struct{} // closed at each change
	broken  chan struct{} // closed when the connection breaks
	refuse  error         // of new watches, if not nil
	partial bool          // it sends changes alone
	watches int
	polls   int
}

func newRegistry() *registry {
	return &registry{changed: make(chan struct{}), broken: make(chan struct{})}
}

func (r *registry) WatchChanges(ctx context.Context, _ script.Name) iter.Seq2[registryclient.StatusChange, error] {
	return func(yield func(registryclient.StatusChange, error) bool) {
		r.mu.Lock()
		r.watches++
		refuse, broken := r.refuse, r.broken
		r.mu.Unlock()
		if refuse != nil {
			yield(registryclient.StatusChange{}, refuse)
			return
		}
		var sent []registryclient.ScriptStatus // nil: nothing yet
		for {
			r.mu.Lock()
			change, changed := registryclient.StatusChange{FleetStatus: r.status, Full: true}, r.changed
			r.mu.Unlock()
			all := change.Scripts
			if r.partial && sent != nil {
				change = changesSince(sent, change)
			}
			if sent = all; !yield(change, nil) {
				return
			}
			select {
			case <-changed:
			case <-broken:
				yield(registryclient.StatusChange{}, errDown)
				return
			case <-ctx.Done():
				yield(registryclient.StatusChange{}, ctx.Err())
				return
			}
		}
	}
}

// changesSince leaves out of the change what was sent.
func changesSince(sent []registryclient.ScriptStatus, change registryclient.StatusChange) registryclient.StatusChange {
	all := change.Scripts
	change.Full, change.Scripts = false, nil
	for _, s := range all {
		if !slices.ContainsFunc(sent, func(o registryclient.ScriptStatus) bool { return reflect.DeepEqual(o, s) }) {
			change.Scripts = append(change.Scripts, s)
		}
	}
	for _, o := range sent {
		if !slices.ContainsFunc(all, func(s registryclient.ScriptStatus) bool { return s.Release.Name == o.Release.Name }) {
			change.Gone = append(change.Gone, o.Release.Name)
		}
	}
	return change
}

func (r *registry) Status(context.Context, script.Name) (registryclient.FleetStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	return r.status, nil
}

var errDown = script.Errorf(script.Unavailable, "", "the registry is away")

// say changes what the registry says.
func (r *registry) say(head script.Revision, scripts ...registryclient.ScriptStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = registryclient.FleetStatus{Head: head, Scripts: scripts}
	close(r.changed)
	r.changed = make(chan struct{})
}

// down breaks the connection; others are refused until up.
func (r *registry) down(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = why
	close(r.broken)
	r.broken = make(chan struct{})
}

func (r *registry) up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = nil
}

func (r *registry) counts() (watches, polls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches, r.polls
}

// pass lets time pass, by the clock of the bubble.
func pass(d time.Duration) { <-time.After(d) }

func name(s string) script.Name { return script.Name{Tenant: "acme", Script: s} }

func status(s string, revision script.Revision, active, desired int) registryclient.ScriptStatus {
	return registryclient.ScriptStatus{
		Release: script.Release{Name: name(s), Revision: revision}, Active: active, Desired: desired, Converged: active == desired,
	}
}

// follow starts a watch, and collects what it tells of; told returns that and forgets it.
func follow(t *testing.T, r *registry) (w *fleet.Watch, told func() fleet.Changed) {
	t.Helper()
	w = fleet.New(r, slog.New(slog.DiscardHandler))
	var mu sync.Mutex
	var sum fleet.Changed
	w.Subscribe(func(c fleet.Changed) {
		mu.Lock()
		defer mu.Unlock()
		sum.Names, sum.All = append(sum.Names, c.Names...), sum.All || c.All
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Start(ctx); err != nil {
			t.Errorf("it ended: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w, func() fleet.Changed {
		t.Helper()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		c := sum
		sum = fleet.Changed{}
		slices.SortFunc(c.Names, func(a, b script.Name) int { return slices.Compare([]byte(a.String()), []byte(b.String())) })
		return c
	}
}

func TestWatchTellsOfChanges(t *testing.T) {
	for _, partial := range []bool{false, true} {
		t.Run(fmt.Sprintf("partial %t", partial), func(t *testing.T) { testChanges(t, partial) })
	}
}

func testChanges(t *testing.T, partial bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.partial = partial
		w, told := follow(t, r)
		if c := told(); !c.All {
			t.Errorf("connected: %+v", c)
		}
		if s := w.State(); !s.Live || !s.Settling || s.Session != 1 {
			t.Errorf("connected: %+v", s)
		}
		r.say(5, status("a", 5, 0, 2), status("b", 4, 2, 2))
		if c := told(); c.All || !slices.Equal(c.Names, []script.Name{name("a"), name("b")}) {
			t.Errorf("two scripts are new: %+v", c)
		}
		r.say(5, status("a", 5, 1, 2), status("b", 4, 2, 2))
		if c := told(); !slices.Equal(c.Names, []script.Name{name("a")}) {
			t.Errorf("one agent has it: %+v", c)
		}
		if s, ok := w.Status(name("a")); !ok || s.Active != 1 {
			t.Errorf("status: %+v, %v", s, ok)
		}
		r.say(6, status("a", 5, 1, 2), status("b", 4, 2, 2))
		if c := told(); c.All || len(c.Names) > 0 {
			t.Errorf("nothing changed: %+v", c)
		}
		restored := status("b", 4, 2, 2) // of etcd, which uses revisions again
		restored.Release.ChangedAt = restored.Release.ChangedAt.Add(time.Second)
		r.say(6, status("a", 5, 1, 2), restored)
		if c := told(); !slices.Equal(c.Names, []script.Name{name("b")}) {
			t.Errorf("another release has the revision: %+v", c)
		}
		r.say(6, status("a", 5, 1, 2), status("b", 4, 2, 2))
		told()
		failed := status("a", 5, 1, 2)
		failed.Failures = []registryclient.AgentFailure{{Agent: "n1", Err: script.Errorf(script.Internal, "", "full")}}
		r.say(6, failed, status("b", 4, 2, 2))
		if c := told(); !slices.Equal(c.Names, []script.Name{name("a")}) {
			t.Errorf("an agent failed: %+v", c)
		}
		tried := failed
		for _, trials := range []registryclient.Trials{{}, {Passed: 1}, {Passed: 1, Calls: 7}, {Passed: 1, Calls: 7, Waiting: 1, WaitingFor: []string{"n1"}}, {Passed: 1, Calls: 7, Waiting: 1, WaitingFor: []string{"n2"}}} {
			tried.Trials = &trials
			for _, want := range [][]script.Name{{name("a")}, nil} {
				r.say(6, tried, status("b", 4, 2, 2))
				if c := told(); !slices.Equal(c.Names, want) {
					t.Errorf("agents say %+v of a candidate: %+v, want %v", trials, c, want)
				}
			}
		}
		gone := status("b", 7, 0, 2)
		gone.Release.Deleted = true
		r.say(7, gone)
		if c := told(); !slices.Equal(c.Names, []script.Name{name("a"), name("b")}) {
			t.Errorf("both are gone: %+v", c)
		}
		if _, ok := w.Status(name("b")); ok || w.State().Head != 7 {
			t.Errorf("it was deleted, and is there; head %d", w.State().Head)
		}
		pass(fleet.Settling)
		if c := told(); !c.All || w.State().Settling {
			t.Errorf("it has settled: %+v", c)
		}
	})
}

// TestWatchOfARestoredRegistry: the registry's store was restored from a backup below a
// connection. Nothing holds that the registry said before.
func TestWatchOfARestoredRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.partial = true
		w, told := follow(t, r)
		r.say(5, status("a", 3, 2, 2), status("b", 5, 2, 2))
		pass(2 * fleet.Settling)
		told()
		r.say(4, status("a", 3, 2, 2), status("b", 4, 2, 2))
		if c, s := told(), w.State(); !c.All || s.Session != 2 || s.Head != 4 {
			t.Errorf("the registry is behind what it had: %+v, %+v; want another session", c, s)
		}
		if b, ok := w.Status(name("b")); !ok || b.Release.Revision != 4 {
			t.Errorf("it has %+v, %v", b, ok)
		}
	})
}

func TestWatchComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		w, told := follow(t, r)
		r.say(5, status("a", 5, 2, 2))
		pass(2 * fleet.Settling)
		told()

		r.down(nil) // it is back at once
		pass(time.Second)
		if c, s := told(), w.State(); !c.All || !s.Live || !s.Settling || s.Session != 2 || s.Err != nil {
			t.Errorf("it was away for a moment: %+v, %+v", c, s)
		}
		pass(2 * fleet.Settling)
		told()

		r.down(errDown)
		pass(fleet.Grace - time.Millisecond)
		if c, s := told(), w.State(); c.All || !s.Live || s.Err == nil {
			t.Errorf("what was known last is good for a while: %+v, %+v", c, s)
		}
		pass(2 * time.Millisecond)
		if c, s := told(), w.State(); !c.All || s.Live || s.Err == nil {
			t.Errorf("it is away for long: %+v, %+v", c, s)
		}
		if s, ok := w.Status(name("a")); !ok || s.Active != 2 {
			t.Errorf("what was known last: %+v, %v", s, ok)
		}
		watches, _ := r.counts()
		pass(time.Minute)
		if again, _ := r.counts(); again-watches < 20 || again-watches > 60 {
			t.Errorf("%d attempts in a minute", again-watches)
		}
		r.up()
		pass(3 * time.Second)
		if c, s := told(), w.State(); !c.All || !s.Live || s.Session != 3 || s.Err != nil {
			t.Errorf("it is back: %+v, %+v", c, s)
		}
	})
}

// TestWatchAsksInstead: a registry with too many scripts to watch is asked, until it has
// fewer.
func TestWatchAsksInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.refuse = script.Errorf(script.Limit, "tenant", "there are more than 10000 scripts")
		w, told := follow(t, r)
		if c, s := told(), w.State(); !c.All || !s.Live || s.Session != 1 {
			t.Errorf("asked once: %+v, %+v", c, s)
		}
		r.say(9, status("a", 9, 1, 1))
		pass(3 * time.Second)
		if c := told(); c.All || !slices.Equal(c.Names, []script.Name{name("a")}) {
			t.Errorf("asked again: %+v", c)
		}
		pass(time.Minute)
		if watches, polls := r.counts(); watches != 1 || polls < 25 || polls > 45 {
			t.Errorf("%d polls and %d watches in a minute", polls, watches)
		}
		told()
		pass(20 * time.Minute)
		if watches, _ := r.counts(); watches < 2 || w.State().Session != 1 || told().All {
			t.Errorf("watching was tried %d times, nothing was lost, and the watch asks for all again: %+v", watches, w.State())
		}
		r.up()
		pass(10 * time.Minute)
		told()
		_, before := r.counts()
		r.say(10, status("a", 10, 1, 1))
		if c := told(); !slices.Equal(c.Names, []script.Name{name("a")}) {
			t.Errorf("it is watched again, and tells at once: %+v", c)
		}
		if _, polls := r.counts(); polls != before || !w.State().Live {
			t.Error("it is still asked")
		}
	})
}

// TestWatchOfOneThatGoesAgain: a registry that says one thing and is gone is not asked
// as fast as it answers.
func TestWatchOfOneThatGoesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		follow(t, r)
		for range 600 {
			pass(100 * time.Millisecond)
			synctest.Wait()
			r.down(nil)
		}
		if watches, _ := r.counts(); watches > 60 {
			t.Errorf("%d connections in a minute", watches)
		}
	})
}

// TestWatchEnds: with its context, wherever it is.
func TestWatchEnds(t *testing.T) {
	for _, refuse := range []error{nil, errDown, script.Errorf(script.Limit, "", "too many")} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.refuse = refuse
			follow(t, r)
			pass(30 * time.Second)
		})
	}
}
