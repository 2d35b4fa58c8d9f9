// Package fleet keeps what a registry says of its fleet at hand: how far each script
// has come on the agents. It follows the registry's watch and tells of the scripts
// for which something changed.
package fleet

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Registry is what a Watch asks: a registryclient.Client.
type Registry interface {
	// WatchChanges yields the status of all scripts at once, and then what changes of it.
	// An error ends it; of kind Limit it says that there are too many to watch.
	WatchChanges(ctx context.Context, selected script.Name) iter.Seq2[registryclient.StatusChange, error]
	// Status returns the status of all scripts, asking for them page by page.
	Status(ctx context.Context, selected script.Name) (registryclient.FleetStatus, error)
}

// The times of a Watch.
const (
	// Grace is how long what was known last is taken for what is: a registry that
	// restarts is back by then.
	Grace = 5 * time.Second
	// Settling is how long after a connection the registry may still be finding its
	// agents: it has yet to hear of those that are there.
	Settling = 5 * time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	// steady is how long a connection has to last for the next attempt to be made soon: a
	// registry that says one thing and goes is not asked twenty times a second.
	steady = 5 * time.Second

	// A registry that has too many scripts to watch is asked for their status instead,
	// every two seconds, or of more than 5,000 scripts less often, in proportion. After
	// a while it may have fewer.
	minPoll         = 2 * time.Second
	polledPerSecond = 2500 // scripts
	pollsToWatch    = 100  // until watching is tried again
)

// State says what the statuses are worth.
type State struct {
	// Live: the statuses are those of now. Otherwise they are the last that were
	// heard, and Err says why there are no newer ones; nil before the first attempt
	// has come to an end.
	Live bool
	Err  error
	// Settling: the registry was connected to a moment ago, and may not know all of
	// its agents yet.
	Settling bool
	// Session counts the connections. What was known of a registry in one need not
	// hold in the next: it may have been restored from a backup.
	Session int
	// Head is the revision up to which the statuses tell of each change.
	Head script.Revision
}

// Changed names the scripts of which something changed, a script that is gone among
// them. All: it may be any, and the State may be another.
type Changed struct {
	Names []script.Name
	All   bool
}

// Watch follows the fleet of one registry. It is safe for concurrent use.
type Watch struct {
	registry Registry
	log      *slog.Logger

	mu        sync.Mutex
	state     State
	since     time.Time // when the connection was made; zero while there is none
	scripts   map[script.Name]registryclient.ScriptStatus
	listeners []func(Changed)
	lapse     *time.Timer // ends Live; nil while connected
	settled   *time.Timer // ends Settling
	frozen    bool        // the registry
}

// New returns a watch that Start sets off.
func New(registry Registry, log *slog.Logger) *Watch {
	return &Watch{registry: registry, log: log}
}

// Subscribe makes f be called with each change from now on, from one goroutine at a
// time or another: f must be safe for concurrent use, and should not take long.
func (w *Watch) Subscribe(f func(Changed)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners = append(w.listeners, f)
}

// Status returns how far the script's release has come, as far as is known; false if
// the registry reported no such script.
func (w *Watch) Status(name script.Name) (registryclient.ScriptStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.scripts[name]
	return s, ok
}

// State says what Status is worth. Who asks for both asks for the State first: then
// a script that is not found at a Head is not there at that revision.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// NeedLeaderElection says that those who do not lead watch too: they know the fleet
// at once when they do.
func (w *Watch) NeedLeaderElection() bool { return false }

// Start follows the fleet until ctx is done, and connects again whenever it has to.
// Call it once.
func (w *Watch) Start(ctx context.Context) error {
	defer w.stop()
	backoff := minBackoff
	first := true // nothing was heard since the connection was lost
	for {
		err := w.follow(ctx, first)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil { // it was asked for long enough: it may be watched by now
			first = false
			continue
		}
		if w.lost(err) >= steady {
			backoff = minBackoff
		}
		first = true
		if !pause(ctx, jitter(backoff)) {
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// stop ends the timers.
func (w *Watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range []*time.Timer{w.lapse, w.settled} {
		if t != nil {
			t.Stop()
		}
	}
}

// follow tells of changes until the registry ends that; first of a session, or going on
// with it.
func (w *Watch) follow(ctx context.Context, first bool) error {
	for change, err := range w.registry.WatchChanges(ctx, script.Name{}) {
		if script.KindOf(err) == script.Limit {
			return w.poll(ctx, first)
		}
		if err != nil {
			return err
		}
		w.heard(change, first)
		first = false
	}
	return script.Errorf(script.Unavailable, "", "the registry ended the watch of its fleet")
}

// poll asks in place of watching. It returns nil when watching should be tried again.
func (w *Watch) poll(ctx context.Context, first bool) error {
	if first {
		w.log.Warn("there are too many scripts for the registry to have them watched: it is asked for their status instead, and conditions change some seconds later")
	}
	for range pollsToWatch {
		fleet, err := w.registry.Status(ctx, script.Name{})
		if err != nil {
			return err
		}
		w.heard(registryclient.StatusChange{FleetStatus: fleet, Full: true}, first)
		first = false
		every := max(minPoll, time.Duration(len(fleet.Scripts))*time.Second/polledPerSecond)
		if !pause(ctx, jitter(every)) {
			return ctx.Err()
		}
	}
	return nil
}

// heard takes note of what the registry said, first of a connection or later.
func (w *Watch) heard(change registryclient.StatusChange, first bool) {
	w.mu.Lock()
	first = first || change.Head < w.state.Head // its store was restored from a backup
	changed := Changed{All: first}
	if frozen := change.Freeze != nil; frozen != w.frozen { // what the registry refused, it may do now
		w.frozen, changed.All = frozen, true
	}
	names := w.take(change)
	if first {
		w.connected()
	} else {
		changed.Names = names
	}
	w.state.Head = change.Head
	w.mu.Unlock()
	w.tell(changed)
}

// take makes the scripts what the change says, and returns the names of those that are
// another thing now. The lock is held.
func (w *Watch) take(change registryclient.StatusChange) (names []script.Name) {
	before, gone := w.scripts, change.Gone
	if change.Full || before == nil {
		w.scripts = make(map[script.Name]registryclient.ScriptStatus, len(change.Scripts))
	}
	for i := range change.Scripts {
		s := &change.Scripts[i]
		name := s.Release.Name
		if s.Release.Deleted {
			gone = append(gone, name)
			continue
		}
		if old, ok := before[name]; !ok || !same(&old, s) {
			names = append(names, name)
		}
		w.scripts[name] = *s
	}
	if change.Full {
		gone = slices.Collect(maps.Keys(before))
	}
	for _, name := range gone {
		if _, there := w.scripts[name]; there && change.Full {
			continue
		}
		if _, was := before[name]; was {
			names = append(names, name)
		}
		delete(w.scripts, name)
	}
	return names
}

// connected begins a session. The lock is held.
func (w *Watch) connected() {
	if w.lapse != nil {
		w.lapse.Stop()
		w.lapse = nil
	}
	if w.settled != nil {
		w.settled.Stop()
	}
	w.log.Info("following the registry's fleet")
	w.state = State{Live: true, Settling: true, Session: w.state.Session + 1}
	w.since = time.Now()
	session := w.state.Session
	w.settled = time.AfterFunc(Settling, func() {
		w.change(func() bool {
			if !w.state.Settling || w.state.Session != session {
				return false
			}
			w.state.Settling = false
			return true
		})
	})
}

// lost takes note that the connection ended, or was not made, and returns how long it
// lasted.
func (w *Watch) lost(err error) (lasted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		lasted = time.Since(w.since)
		w.since = time.Time{}
	}
	if w.state.Err == nil { // once for all attempts
		w.log.Warn("the registry's fleet is not followed: trying again", "error", err)
	}
	w.state.Err = err
	if w.lapse != nil || !w.state.Live {
		return lasted
	}
	session := w.state.Session
	w.lapse = time.AfterFunc(Grace, func() {
		w.change(func() bool {
			if w.state.Session != session || w.lapse == nil {
				return false // it was made again just now
			}
			w.state.Live, w.state.Settling = false, false
			return true
		})
	})
	return lasted
}

// change changes the state, and tells of it if change reports that it did.
func (w *Watch) change(change func() bool) {
	w.mu.Lock()
	changed := change()
	w.mu.Unlock()
	if changed {
		w.tell(Changed{All: true})
	}
}

// tell calls the listeners.
func (w *Watch) tell(c Changed) {
	if !c.All && len(c.Names) == 0 {
		return
	}
	w.mu.Lock()
	listeners := w.listeners
	w.mu.Unlock()
	for _, f := range listeners {
		f(c)
	}
}

func same(a, b *registryclient.ScriptStatus) bool {
	if a.Release.Revision != b.Release.Revision || !a.Release.ChangedAt.Equal(b.Release.ChangedAt) ||
		a.Desired != b.Desired || a.Active != b.Active || a.Failed != b.Failed ||
		a.Unknown != b.Unknown || a.Converged != b.Converged || len(a.Failures) != len(b.Failures) || !sameTrials(a.Trials, b.Trials) {
		return false
	}
	for i, f := range a.Failures {
		if g := b.Failures[i]; f.Agent != g.Agent || f.Err.Error() != g.Err.Error() {
			return false
		}
	}
	return true
}

func sameTrials(a, b *registryclient.Trials) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Passed == b.Passed && a.Failed == b.Failed && a.Running == b.Running && a.Calls == b.Calls && a.FailedCalls == b.FailedCalls &&
		a.Waiting == b.Waiting && a.Why == b.Why && a.WaitingWhy == b.WaitingWhy && slices.Equal(a.WaitingFor, b.WaitingFor)
}

// pause waits for d, and reports whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter returns about d: those that lost the registry together come back one by one.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5+1)
}
