package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// progress is how far one release has come.
type progress struct {
	release script.Release
	// recent: committed while this fleet was watched, so that its time is known.
	recent bool
	// lastAgent is the last that activated it, at lastAt.
	lastAgent string
	lastAt    time.Time
	settled   bool // it converged once; took is how long that was
	took      time.Duration
}

// Reset implements registry.Projection.
func (f *Fleet) Reset(fleet string, head script.Revision, releases []script.Release) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id != fleet {
		f.id, f.base = fleet, head
		clear(f.agents)
		clear(f.departed)
		clear(f.failing)
		clear(f.scripts)
		f.levels = levels{}
	}
	before := f.scripts
	f.scripts = make(map[script.Name]*progress, len(releases))
	f.pending = nil
	for _, r := range releases {
		if p := before[r.Name]; p != nil && p.release.Revision == r.Revision {
			f.scripts[r.Name] = p
			if p.recent && !p.settled {
				f.await(p)
			}
			continue
		}
		f.track(r)
	}
	f.head = head
	f.settle(f.now())
	f.touch()
}

// Apply implements registry.Projection.
func (f *Fleet) Apply(t registry.Transaction) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range t.Releases {
		f.track(r)
	}
	f.head = max(f.head, t.Revision)
	f.settle(f.now())
	f.touch()
}

// track replaces what is known of a script by a new release of it.
func (f *Fleet) track(r script.Release) {
	if old := f.scripts[r.Name]; old != nil {
		if old.release.Revision >= r.Revision {
			return
		}
		f.abandon(old)
	}
	p := &progress{release: r, recent: r.Revision > f.base}
	f.scripts[r.Name] = p
	if !p.recent {
		return
	}
	f.await(p)
	// Agents follow the same feed: some may have reported the release before it
	// was seen here. Their reports are what their records say.
	if f.levels.atLeast(r.Revision) == 0 {
		return
	}
	for _, a := range f.agents {
		if !a.unknown && a.activated >= r.Revision && a.heard.After(p.lastAt) {
			p.lastAgent, p.lastAt = a.name, a.heard
		}
	}
}

func byRevision(p *progress, r script.Revision) int { return cmp.Compare(p.release.Revision, r) }

func (f *Fleet) await(p *progress) {
	i, _ := slices.BinarySearchFunc(f.pending, p.release.Revision, byRevision)
	f.pending = slices.Insert(f.pending, i, p)
}

func (f *Fleet) abandon(p *progress) {
	if i, ok := slices.BinarySearchFunc(f.pending, p.release.Revision, byRevision); ok && f.pending[i] == p {
		f.pending = slices.Delete(f.pending, i, i+1)
	}
}

// passed notes that the agent just reported the releases above from.
func (f *Fleet) passed(a *agent, from script.Revision, now time.Time) {
	i, _ := slices.BinarySearchFunc(f.pending, from+1, byRevision)
	for _, p := range f.pending[i:] {
		if p.release.Revision > a.activated {
			return
		}
		p.lastAgent, p.lastAt = a.name, now
	}
}

// recovered notes that the agent got over its failure of the script.
func (f *Fleet) recovered(a *agent, name script.Name, now time.Time) {
	p := f.scripts[name]
	if p != nil && p.recent && !p.settled && a.activated >= p.release.Revision {
		p.lastAgent, p.lastAt = a.name, now
	}
}

// settle finds the releases that have converged by now.
func (f *Fleet) settle(now time.Time) {
	lowest, ok := f.levels.lowest()
	if !ok || !f.gathered(now) {
		return
	}
	reached, _ := slices.BinarySearchFunc(f.pending, lowest+1, byRevision)
	if reached == 0 {
		return
	}
	kept := f.pending[:0]
	for i, p := range f.pending {
		if i >= reached || f.failed(p.release) > 0 {
			kept = append(kept, p)
			continue
		}
		at := p.lastAt
		if at.IsZero() {
			at = now
		}
		p.settled, p.took = true, max(0, at.Sub(p.release.ChangedAt))
		f.converged(p.release.Name, p.took)
	}
	clear(f.pending[len(kept):])
	f.pending = kept
}

// failed counts the connected agents that could not activate the release, or
// what came after it: such an agent runs neither.
func (f *Fleet) failed(r script.Release) int {
	n := 0
	for _, a := range f.failing[r.Name] {
		if a.failures[r.Name].Revision >= r.Revision {
			n++
		}
	}
	return n
}
