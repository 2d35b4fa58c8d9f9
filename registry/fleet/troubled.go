package fleet

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Troubled says what is wrong with the connected agents of the fleet, for metrics.
type Troubled struct {
	// Held are the agents that keep what the registry says is gone, and Failed those that could not
	// activate a release, or do not know a tenant's strict audit: as of the last Sweep.
	Held, Failed int
	// Behind is how long ago the oldest change was committed that an agent follows and has not
	// activated; 0 if there is none.
	Behind time.Duration
}

// mostLooked bounds what one call of Troubled looks at: agents of many groups may be far behind.
const mostLooked = 20_000

// Troubled counts the agents that do not run what they are to run.
func (f *Fleet) Troubled() Troubled {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, looks, now := f.troubles, mostLooked, f.now()
	for _, g := range f.groups {
		if oldest := f.order.first(g.lowest(), g.selector, &looks); !oldest.IsZero() {
			t.Behind = max(t.Behind, now.Sub(oldest))
		}
	}
	return t
}

// countTrouble counts one agent at a sweep.
func (f *Fleet) countTrouble(a *agent) {
	if a.unknown {
		return
	}
	if a.report.Held != "" {
		f.troubles.Held++
	}
	failed := len(a.failures) > 0
	for range f.unaudited(a) {
		failed = true
		break
	}
	if failed {
		f.troubles.Failed++
	}
}

// waits is how long the candidate is in its step, without the step's pause; 0 if it is not on its way.
func waits(r *script.Release, now time.Time) time.Duration {
	if state := r.CandidateState(); state != script.CandidateTesting && state != script.CandidateRollingOut {
		return 0
	}
	return max(0, now.Sub(r.Candidate.WaitsSince(r.Plan())))
}
