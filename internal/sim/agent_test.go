package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What the follower is given; bugs that are put in on purpose wrap them.
type (
	followState    = follow.State
	followReporter = follow.Reporter
)

// agent is a node of the fleet: what is left when its process dies.
type agent struct {
	w       *world
	number  int
	name    string
	tenants script.Selector
	disk    *disk
	peer    *peer
	channel *channel
	trusted *seal.Keyring
	runs    int

	process *process // nil: it is down

	mu sync.Mutex
	// reached is the highest revision of each script that was ever live here, or
	// gone: what was live once may not be followed by anything older.
	reached map[script.Name]script.Revision
	// passed is the highest revision of each script that the agent has truly said to be
	// past, though it never ran it: it was deleted meanwhile.
	passed map[script.Name]script.Revision
	// drifted are scripts whose live release was changed behind the follower's back.
	drifted map[script.Name]bool
	// reachedKeys and driftedKeys are the same of values and settings, by their keys.
	reachedKeys map[string]script.Revision
	driftedKeys map[string]bool
}

func newAgent(w *world, number int, globs string) *agent {
	name := fmt.Sprintf("agent-%d", number)
	return &agent{
		w: w, number: number, name: name, tenants: selector(globs),
		disk: newDisk(w.seed, name+" disk"), peer: w.bus.join(name), channel: newChannel(w, name+" calls"),
		trusted: w.keyring(), reached: map[script.Name]script.Revision{}, passed: map[script.Name]script.Revision{},
		drifted: map[script.Name]bool{}, reachedKeys: map[string]script.Revision{}, driftedKeys: map[string]bool{},
	}
}

// start starts the process, if there is none.
func (a *agent) start() {
	if a.process != nil {
		return
	}
	a.runs++
	p := &process{agent: a, table: cache.NewTable(), values: cache.NewValues(a.disk, 1<<20), tenants: cache.NewTenants(), loaded: map[string]script.Revision{}, compiled: map[script.Digest]int{}, done: make(chan struct{})}
	p.ctx, p.die = context.WithCancel(a.w.ctx)
	p.load()
	state, reporter := followState(p), followReporter(p)
	if wrap := a.w.bugs.state; wrap != nil {
		state = wrap(p)
	}
	if wrap := a.w.bugs.reporter; wrap != nil {
		reporter = wrap(p)
	}
	f, err := follow.New(follow.Config{
		Agent: a.name, Tenants: a.tenants, Trusted: a.trusted,
		State: state, Registry: follow.NewRPC(a.channel), Feed: p, Reporter: reporter,
		Log: a.w.logger(a.name), Seed: a.w.seed<<8 + uint64(a.number*16+a.runs+1),
	})
	if err != nil {
		a.w.violate("%s does not start: %v", a.name, err)
		return
	}
	p.follower = f
	a.process = p
	a.w.running.Go(func() {
		defer close(p.done)
		if err := f.Run(p.ctx); err != nil {
			a.w.violate("%s ended: %v", a.name, err)
		}
	})
}

// crash ends the process at once, with what it was writing half done, and the disk
// in the state that is asked for.
func (a *agent) crash(how crash, r *rand.Rand) {
	p := a.process
	if p == nil {
		return
	}
	a.peer.detach()
	p.dead.Store(true)
	p.die()
	<-p.done
	a.process = nil
	if r != nil {
		a.disk.damage(how, r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.drifted) // that was in memory
	clear(a.driftedKeys)
}

// tested returns what the agent's live table has of a script.
func (p *process) live(name script.Name) *cache.Release { return p.table.Get(name.String()) }

// check looks at what must be true at every moment.
func (a *agent) check() {
	p := a.process
	if p == nil {
		return
	}
	for r := range p.table.All() {
		a.mu.Lock()
		drifted := a.drifted[r.Name]
		a.mu.Unlock()
		if drifted {
			continue
		}
		made, ok := a.w.truth.find(r.Name, r.Revision)
		if !ok || made.sum != r.Fingerprint() {
			a.w.violate("%s runs %s at revision %d, which was never committed so", a.name, r.Name, r.Revision)
			continue
		}
		a.checkRuns(r, made)
	}
	a.checkObjects(p)
	a.checkTogether(p)
}

// checkStatus finds out whether a status is true: every script that has not changed
// after the activated revision is live, or gone, as it should be, but for the
// failures.
func (a *agent) checkStatus(p *process, s *eventv1.Status) {
	activated := script.Revision(s.GetActivatedRevision())
	failed := map[string]script.Revision{}
	for _, f := range s.GetFailures() {
		failed[f.GetKey()] = script.Revision(f.GetRevision())
	}
	a.checkObjectStatus(p, activated, failed)
	for _, name := range a.w.truth.names() {
		want, ok := a.w.truth.asOf(name, activated)
		a.mu.Lock()
		drifted := a.drifted[name]
		a.mu.Unlock()
		if !ok || drifted || !a.tenants.Matches(name.Tenant) || failed[wire.ReleaseKey(name)] >= want.revision {
			continue
		}
		got := p.live(name)
		switch {
		case got != nil && got.Revision > activated: // newer than it needs to be
		case want.release.Deleted && got != nil:
			a.w.violate("%s reports %d, and still runs %s at revision %d, which was deleted at %d", a.name, activated, name, got.Revision, want.revision)
		case want.release.Deleted:
			a.mu.Lock()
			a.passed[name] = max(a.passed[name], want.revision)
			a.mu.Unlock()
		case got == nil:
			if _, gone := a.w.truth.deletedAfter(name, want.revision); !gone {
				a.w.violate("%s reports %d, and does not run %s of revision %d", a.name, activated, name, want.revision)
			}
		case got.Revision != want.revision:
			a.w.violate("%s reports %d, and runs %s at revision %d instead of %d", a.name, activated, name, got.Revision, want.revision)
		}
	}
}

// unsettled says what the agent still lacks to be where the registry is; "" if
// nothing.
func (a *agent) unsettled() string {
	p := a.process
	if p == nil {
		return a.name + " is down"
	}
	p.mu.Lock()
	status := p.status
	p.mu.Unlock()
	revision, _ := p.follower.Position(a.w.began)
	head := a.w.truth.head(a.tenants)
	if revision < head {
		return fmt.Sprintf("%s is at revision %d of %d", a.name, revision, head)
	}
	failed := map[string]script.Revision{}
	for _, f := range status.GetFailures() {
		failed[f.GetKey()] = script.Revision(f.GetRevision())
	}
	if at := script.Revision(status.GetActivatedRevision()); at < head {
		return fmt.Sprintf("%s reports revision %d of %d", a.name, at, head)
	}
	if name, ok := a.adrift(); ok {
		return fmt.Sprintf("the drift of %s in %s is not healed", name, a.name)
	}
	if lack := a.unsettledObject(failed); lack != "" {
		return lack
	}
	for _, name := range a.w.truth.names() {
		if !a.tenants.Matches(name.Tenant) {
			if p.live(name) != nil {
				return fmt.Sprintf("%s runs %s, which it does not follow", a.name, name)
			}
			continue
		}
		want, _ := a.w.truth.asOf(name, 1<<62)
		got, bad := p.live(name), a.isBad(want.release)
		switch failure := failed[wire.ReleaseKey(name)]; {
		case !bad && failure != 0 && a.isHeld(name.Tenant, want.revision):
		case bad && failure != want.revision:
			return fmt.Sprintf("%s does not report that it cannot compile %s", a.name, name)
		case bad:
		case failure != 0:
			return fmt.Sprintf("%s fails at %s of revision %d", a.name, name, failure)
		case want.release.Deleted && got != nil:
			return fmt.Sprintf("%s runs %s, which was deleted", a.name, name)
		case want.release.Deleted:
		case got == nil || got.Revision != want.revision || got.Fingerprint() != want.sum:
			return fmt.Sprintf("%s does not run %s as of revision %d", a.name, name, want.revision)
		}
	}
	return ""
}

// adrift returns a script that has drifted, and whose drift can be found. What is live
// in place of a release that cannot be compiled is not what the registry has anyhow;
// and what changed again may have mended it.
func (a *agent) adrift() (script.Name, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.drifted {
		last, ok := a.w.truth.asOf(name, 1<<62)
		if gone := !ok || last.release.Deleted; gone && a.process.live(name) == nil {
			delete(a.drifted, name)
			continue
		}
		if !a.isBad(last.release) && !a.isHeld(name.Tenant, last.revision) {
			return name, true
		}
	}
	return script.Name{}, false
}

// who is the agent as releases select it: each second one is in zone a.
func (a *agent) who() script.Agent {
	return script.Agent{Name: a.name, Labels: map[string]string{"zone": []string{"a", "b"}[a.number%2]}}
}

// isBad reports whether the agent cannot compile what it is to run of the release.
func (a *agent) isBad(r script.Release) bool { return badDigests()[r.RunsOn(a.who()).Digest] }

// mayConverge reports whether all agents that follow it, followed of them, can come to run
// the same of the release.
func mayConverge(r script.Release, followed int) bool {
	return followed > 0 && r.Candidate == nil && !badDigests()[r.Active.Digest]
}

var badDigests = sync.OnceValue(func() map[script.Digest]bool {
	bad := map[script.Digest]bool{}
	for i := range 6 {
		bad[script.DigestOf([]byte(fmt.Sprintf("%s return %d", badSource, i)))] = true
	}
	return bad
})
