// Package profile keeps the profiles of scripts that run on this agent: which calls take samples, and
// what these add up to. The profiles at a time, their length, and what each holds are bounded.
package profile

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of profiles.
const (
	// MaxDuration is how long a profile takes at most.
	MaxDuration = time.Minute

	maxRunning  = 8    // at a time
	maxOfTenant = 2    // of them, of one tenant
	maxVersions = 4    // of the script; calls of others are counted alone
	maxFrames   = 2048 // different ones in a profile
	maxStacks   = 2000 // different ones in a profile
	maxBuiltin  = 64   // bytes of a name
)

// What stands in place of builtins where a profile has no room.
const (
	otherStacks = "(other stacks)"
	otherFrames = "(other functions)"
)

// Profiles are those that run; none at first. It is safe for concurrent use.
type Profiles struct {
	mu      sync.Mutex                 // for changes
	running atomic.Pointer[[]*Running] // nil if there are none
}

// Of returns what samples of a call of the script's version go to: nil unless it is being profiled.
func (p *Profiles) Of(of script.Name, version uint64) engine.Profiler {
	if p.running.Load() == nil { // little enough to be inlined
		return nil
	}
	return p.find(of, version)
}

func (p *Profiles) find(of script.Name, version uint64) engine.Profiler {
	running := p.running.Load()
	if running == nil {
		return nil
	}
	for _, r := range *running {
		if r.spec.Script == of && (r.spec.Version == 0 || r.spec.Version == version) {
			return r.of(version)
		}
	}
	return nil
}

// Spec says what to profile.
type Spec struct {
	Script script.Name
	// Version alone; all that are called if 0.
	Version uint64
	// ID ends the profile early: see End.
	ID string
	// Duration after which it ends.
	Duration time.Duration
}

// Running is a profile that runs.
type Running struct {
	profiles *Profiles
	spec     Spec
	started  time.Time
	end      func() // early
	early    <-chan struct{}

	others   atomic.Uint64              // calls of versions that are too many
	versions atomic.Pointer[[]*version] // that were called

	mu       sync.Mutex
	over     bool
	frames   map[engine.Frame]uint32
	numbered []engine.Frame
	stacks   map[string]*uint64 // instructions, by the number of the version and those of the frames
}

// Start begins a profile. Another one of the script is a Conflict, too many are a Limit. Whoever
// starts it calls Wait or Stop.
func (p *Profiles) Start(spec Spec) (*Running, error) {
	if spec.Duration <= 0 || spec.Duration > MaxDuration {
		return nil, script.Errorf(script.Invalid, "duration", "is %v, want more than 0 and at most %v", spec.Duration, MaxDuration)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var running []*Running
	if all := p.running.Load(); all != nil {
		running = *all
	}
	ofTenant := 0
	for _, r := range running {
		if r.spec.Script == spec.Script {
			return nil, script.Errorf(script.Conflict, "script", "%s is being profiled already: wait until that ends, in at most %v", spec.Script, (r.spec.Duration - time.Since(r.started)).Round(time.Second))
		}
		if r.spec.Script.Tenant == spec.Script.Tenant {
			ofTenant++
		}
	}
	if len(running) >= maxRunning || ofTenant >= maxOfTenant {
		return nil, script.Errorf(script.Limit, "", "this agent runs %d profiles, %d of them of tenant %s: it runs at most %d, and %d of a tenant; wait until one ends", len(running), ofTenant, spec.Script.Tenant, maxRunning, maxOfTenant)
	}
	early := make(chan struct{})
	r := &Running{
		profiles: p, spec: spec, started: time.Now(), early: early, end: sync.OnceFunc(func() { close(early) }),
		frames: map[engine.Frame]uint32{}, stacks: map[string]*uint64{},
	}
	all := append(slices.Clone(running), r)
	p.running.Store(&all)
	return r, nil
}

// End ends the profile of the script with the id early, and reports whether there was one.
func (p *Profiles) End(of script.Name, id string) bool {
	all := p.running.Load()
	if all == nil {
		return false
	}
	for _, r := range *all {
		if r.spec.ID == id && r.spec.Script == of {
			r.end()
			return true
		}
	}
	return false
}

// Wait stops the profile when its time is up, somebody ends it, or ctx is done.
func (r *Running) Wait(ctx context.Context) Result {
	timer := time.NewTimer(r.spec.Duration - time.Since(r.started))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.early:
	case <-ctx.Done():
	}
	return r.Stop()
}

// Stop ends the profile and returns what it has.
func (r *Running) Stop() Result {
	p := r.profiles
	p.mu.Lock()
	if all := p.running.Load(); all != nil {
		left := slices.DeleteFunc(slices.Clone(*all), func(other *Running) bool { return other == r })
		if len(left) == 0 {
			p.running.Store(nil)
		} else {
			p.running.Store(&left)
		}
	}
	p.mu.Unlock()
	return r.result()
}
