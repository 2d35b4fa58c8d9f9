// Package load is what users do to a fleet while it is being broken: it writes
// scripts through the registries, calls them on every agent, asks registries how
// far they have come, and keeps all answers.
package load

import (
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
)

// Record collects a history. It is safe for concurrent use.
type Record struct {
	began time.Time

	mu      sync.Mutex
	history history.History
	claims  map[string]bool
	calls   int
}

// NewRecord begins a history of a schedule.
func NewRecord(seed uint64, agents, scripts []string) *Record {
	return &Record{
		began:   time.Now(),
		history: history.History{Seed: seed, Agents: agents, Scripts: scripts},
		claims:  map[string]bool{},
	}
}

// Now is the time since the beginning.
func (r *Record) Now() history.Time { return time.Since(r.began) }

func (r *Record) sight(g history.Sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Sights = append(r.history.Sights, g)
}

func (r *Record) called() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
}

func (r *Record) write(w history.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Writes = append(r.history.Writes, w)
}

// claim keeps a claim, unless the registry has made the same before: what it said
// once stays said.
func (r *Record) claim(key string, c history.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.claims[key] {
		r.claims[key] = true
		r.history.Claims = append(r.history.Claims, c)
	}
}

// report keeps a report, unless the registry has made the same before.
func (r *Record) report(key string, c history.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.claims[key] {
		r.claims[key] = true
		r.history.Reports = append(r.history.Reports, c)
	}
}

// Fault notes that a fault begins; the function that it returns, that it is over.
func (r *Record) Fault(kind, target, detail string) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const never = 24 * time.Hour
	i := len(r.history.Faults)
	r.history.Faults = append(r.history.Faults, history.Fault{Kind: kind, Target: target, From: r.Now(), To: never, Detail: detail})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.history.Faults[i].To = r.Now()
	}
}

// Crash notes that a process ended by itself, or did not come up.
func (r *Record) Crash(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Crashes = append(r.history.Crashes, what)
}

// Finish returns the history, completed by change. Nothing may be recorded any more.
func (r *Record) Finish(change func(*history.History)) (h *history.History, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.history)
	return &r.history, r.calls
}
