package fleet

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Filter says which scripts a status is of.
type Filter struct {
	Tenant string // all tenants if empty
	Script string // all scripts of the tenant if empty
}

// Status is the fleet and the scripts that were asked for, at one moment.
type Status struct {
	Fleet   string
	Head    script.Revision
	Agents  []Agent        // by name
	Scripts []ScriptStatus // by the names' text
}

// Agent is one agent, as it last reported.
type Agent struct {
	Name       string
	Labels     map[string]string
	Software   string
	Activated  script.Revision
	Unknown    bool // unheard for too long: what it runs is not known
	UnheardFor time.Duration
}

// ScriptStatus is how far one release has come.
type ScriptStatus struct {
	Release script.Release
	Desired int // agents of the fleet: active, waited for, failed and unknown
	Active  int // agents that have activated this release
	Failed  int // agents that could not, and run what they had
	Unknown int // agents that are unknown
	// Converged: every connected agent is active, and there is at least one; not
	// while the agents answer a roll call.
	Converged bool
	// Took is the time from commit until the last agent reported it active, if
	// that is known.
	Took    time.Duration
	HasTook bool
	// SlowestAgent was the last, or is still waited for.
	SlowestAgent string
	Failures     []AgentFailure // at most MaxFailures
}

// MaxFailures is how many failures a ScriptStatus names.
const MaxFailures = 5

// AgentFailure says why an agent could not activate a release.
type AgentFailure struct {
	Agent string
	Err   *script.Error
}

// Status returns the status of the scripts. A deleted script is among them only
// if it is asked for by its name.
func (f *Fleet) Status(filter Filter) Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status(filter)
}

func (f *Fleet) status(filter Filter) Status {
	now := f.now()
	f.gathered(now)
	s := Status{Fleet: f.id, Head: f.head, Agents: make([]Agent, 0, len(f.agents))}
	var last *agent // the connected agent that is furthest behind
	for _, a := range f.agents {
		s.Agents = append(s.Agents, Agent{
			Name:       a.name,
			Labels:     a.labels,
			Software:   a.software,
			Activated:  a.activated,
			Unknown:    a.unknown,
			UnheardFor: now.Sub(a.heard),
		})
		if !a.unknown && (last == nil || a.activated < last.activated || a.activated == last.activated && a.name < last.name) {
			last = a
		}
	}
	slices.SortFunc(s.Agents, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	for p := range f.chosen(filter) {
		s.Scripts = append(s.Scripts, f.scriptStatus(p, last))
	}
	slices.SortFunc(s.Scripts, func(a, b ScriptStatus) int {
		return strings.Compare(a.Release.Name.String(), b.Release.Name.String())
	})
	return s
}

// chosen yields what the filter lets through.
func (f *Fleet) chosen(filter Filter) iter.Seq[*progress] {
	return func(yield func(*progress) bool) {
		if filter.Script != "" {
			if p := f.scripts[script.Name{Tenant: filter.Tenant, Script: filter.Script}]; p != nil {
				yield(p)
			}
			return
		}
		for name, p := range f.scripts {
			if (filter.Tenant == "" || name.Tenant == filter.Tenant) && !p.release.Deleted && !yield(p) {
				return
			}
		}
	}
}

func (f *Fleet) scriptStatus(p *progress, last *agent) ScriptStatus {
	r := p.release
	connected := f.levels.total()
	s := ScriptStatus{
		Release: r,
		Desired: len(f.agents),
		Active:  f.levels.atLeast(r.Revision),
		Unknown: len(f.agents) - connected,
	}
	for _, name := range slices.Sorted(maps.Keys(f.failing[r.Name])) {
		a := f.failing[r.Name][name]
		failure := a.failures[r.Name]
		if failure.Revision < r.Revision {
			continue
		}
		s.Failed++
		if a.activated >= r.Revision {
			s.Active--
		}
		if len(s.Failures) < MaxFailures {
			s.Failures = append(s.Failures, AgentFailure{Agent: name, Err: failure.Err})
		}
	}
	s.Converged = !f.gathering && connected > 0 && s.Active == connected
	switch {
	case s.Converged && p.settled:
		s.Took, s.HasTook, s.SlowestAgent = p.took, true, p.lastAgent
	case !s.Converged && last != nil && last.activated < r.Revision:
		s.SlowestAgent = last.name
	}
	return s
}

// Reached waits until the releases up to the revision are known here.
func (f *Fleet) Reached(ctx context.Context, revision script.Revision) error {
	for {
		f.mu.Lock()
		if f.id != "" && f.head >= revision {
			f.mu.Unlock()
			return nil
		}
		changed := f.wait()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return script.Errorf(script.Unavailable, "", "this registry has not caught up with revision %d: %w", revision, ctx.Err())
		}
	}
}

// watchInterval is the least time between two statuses of a watch.
const watchInterval = 100 * time.Millisecond

// Watch yields the status at once, and again after each change, at most ten times
// a second, until ctx is done.
func (f *Fleet) Watch(ctx context.Context, filter Filter) iter.Seq[Status] {
	return func(yield func(Status) bool) {
		pace := time.NewTimer(0)
		defer pace.Stop()
		for {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			f.mu.Lock()
			changed, status := f.wait(), f.status(filter)
			f.mu.Unlock()
			pace.Reset(watchInterval)
			if !yield(status) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// wait returns what is closed at the next change.
func (f *Fleet) wait() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// touch tells all who wait that something changed.
func (f *Fleet) touch() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
