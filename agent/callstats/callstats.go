// Package callstats counts the calls of scripts, and what the calls of tenants use. It observes an executor.
//
// A bounded number of scripts have a place: counts and metrics of their own. Calls of other scripts count for their
// tenant, and in the metrics for the script "other" of the tenant "other". While all places are taken, a script can get
// the place of another one:
//
//   - of a script that was deleted, or was not called for a minute;
//   - of a script whose tenant has more places than its own tenant.
//
// The metrics of the new script start at 0. The counts of the old one remain in those of its tenant.
package callstats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultScripts is the default of Config.Scripts.
const DefaultScripts = 1000

// Config configures Stats.
type Config struct {
	// Table has the live releases. Only one Stats may observe their calls.
	Table *cache.Table
	// Scripts is the number of places; 0 means DefaultScripts.
	Scripts int
	// Classic adds classic buckets to the histogram of latencies.
	Classic bool
	// Metrics registers the metrics, if not nil.
	Metrics prometheus.Registerer
}

// Stats counts calls. It is safe for concurrent use.
type Stats struct {
	cfg   Config
	epoch time.Time
	tried atomic.Int64 // the last time that a script looked for a place while all were taken

	mu      sync.Mutex // guards the fields below; a call with a cell does not lock it
	places  map[script.Name]*place
	tenants map[string]*tenant
	past    meter.Figures // of calls without a place, of tenants that were removed
}

var _ execute.Observer = (*Stats)(nil)

// place has the counts of one script.
type place struct {
	name    script.Name
	text    string // "tenant/name"
	tenant  *tenant
	cell    meter.Cell
	brought meter.Figures // only for Changes and Brought
}

// tenant has the counts of one tenant.
type tenant struct {
	name   string
	places int
	rest   meter.Cell // calls of scripts without a place
	// Guarded by Stats.mu.
	past  meter.Use     // of scripts that lost their place
	taken meter.Use     // see TakeUse
	moved time.Duration // when TakeUse last returned something

	brought meter.Figures // of rest; only for Changes and Brought
}

// headStart is the first time on the clock of cells: 0 means that there was no call.
const headStart = time.Hour

// New returns Stats without calls. It fails only if the metrics are registered already.
func New(cfg Config) (*Stats, error) {
	if cfg.Scripts <= 0 {
		cfg.Scripts = DefaultScripts
	}
	s := &Stats{cfg: cfg, epoch: time.Now().Add(-headStart), places: map[script.Name]*place{}, tenants: map[string]*tenant{}}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(collector{s}); err != nil {
			return nil, fmt.Errorf("register the metrics of scripts: %w", err)
		}
	}
	return s, nil
}

// Ended implements execute.Observer. It ignores calls of scripts that do not exist: callers can make up any names.
func (s *Stats) Ended(_ context.Context, e *execute.Ended) error {
	if e.Release == nil {
		return nil
	}
	in := 0
	for _, arg := range e.Call.Args {
		in += len(arg)
	}
	// A variable would be a copy, which takes a third of the time of all this.
	s.note(e.Release, &meter.Call{
		At: e.Start.Sub(s.epoch) + e.Took, Took: e.Took, Ran: e.Ran, Outcome: meter.OutcomeOf(e.Kind),
		Instructions: e.Used.Instructions, Allocated: e.Used.Allocated, In: in, Out: e.Reply.Bytes(),
	})
	return nil
}

func (s *Stats) note(r *cache.Release, call *meter.Call) {
	cell, try := r.Meter.Load(), false
	if cell != nil && cell.Shared {
		try = s.mayTry(call.At)
	}
	if cell == nil || try || !cell.Note(call) {
		s.noteSlow(r, call, try || s.mayTry(call.At))
	}
}

// tryEvery is how often a script may look for a place while all are taken. The search takes longer than a call.
const tryEvery = 100 * time.Millisecond

// mayTry reports whether a script may look for a place now.
func (s *Stats) mayTry(at time.Duration) bool {
	last := s.tried.Load()
	return at-time.Duration(last) >= tryEvery && s.tried.CompareAndSwap(last, int64(at))
}

// noteSlow finds the cell of the release, and counts the call there. With try, the script may look for a place.
func (s *Stats) noteSlow(r *cache.Release, call *meter.Call, try bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cell := s.cellOf(r.Name, call.At, try)
	r.Meter.Store(cell)
	cell.Note(call) // the cell is open: s.mu is held
}

// Dropped counts dropped log lines of a script. It ignores scripts that do not exist.
func (s *Stats) Dropped(name script.Name, lines uint64) {
	if s.cfg.Table.Get(name.String()) == nil {
		return
	}
	now := s.now()
	try := s.mayTry(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cellOf(name, now, try).Add(&meter.Figures{Dropped: lines}, 0)
}

func (s *Stats) now() time.Duration { return time.Since(s.epoch) }

// cellOf returns the cell that counts the script's calls. With try, the script may take the place of another one. s.mu
// is held.
func (s *Stats) cellOf(name script.Name, at time.Duration, try bool) *meter.Cell {
	if p := s.places[name]; p != nil {
		return &p.cell
	}
	t := s.tenant(name.Tenant, at)
	text := name.String()
	if name == otherName || s.cfg.Table.Get(text) == nil || len(s.places) >= s.cfg.Scripts && (!try || !s.makeRoom(t, at)) {
		return &t.rest
	}
	p := &place{name: name, text: text, tenant: t}
	s.places[name] = p
	t.places++
	return &p.cell
}

// tenant returns the counts of the tenant, and adds it if it is new. s.mu is held.
func (s *Stats) tenant(name string, at time.Duration) *tenant {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name, moved: at}
		t.rest.Shared = true
		s.tenants[name] = t
	}
	return t
}

// all returns all places and tenants. Their figures remain readable after they were removed.
func (s *Stats) all() ([]*place, []*tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.places)), slices.Collect(maps.Values(s.tenants))
}
