// Package callstats counts the calls of each script, within bounds, and what the calls of each tenant use. It
// observes an executor.
//
// A number of scripts have a place: figures of their own, and metrics of their own. Calls of all others count for
// their tenant, and among the metrics for the script "other" of the tenant "other". While all places are taken, a
// script that is called gets the place of one that is gone or was not called for a minute, or of a tenant that has
// more places than its own. Its metrics begin anew then, and what the other had counted stays with its tenant alone.
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

// DefaultScripts is how many scripts have a place, unless told.
const DefaultScripts = 1000

// Config of Stats.
type Config struct {
	// Table has the live releases. No other Stats observe calls of these.
	Table *cache.Table
	// Scripts that have a place; 0 means DefaultScripts.
	Scripts int
	// Classic has the histogram of latencies have classic buckets, too.
	Classic bool
	// Metrics gets the metrics, if not nil.
	Metrics prometheus.Registerer
}

// Stats are what is known of calls. They are safe for concurrent use.
type Stats struct {
	cfg   Config
	epoch time.Time
	tried atomic.Int64 // when a script asked for a place last, while all were taken

	mu      sync.Mutex // guards what follows; no call with a cell waits for it
	places  map[script.Name]*place
	tenants map[string]*tenant
	past    meter.Figures // of calls without a place, of tenants that are forgotten
}

var _ execute.Observer = (*Stats)(nil)

// place is that of one script.
type place struct {
	name    script.Name
	text    string // "tenant/name"
	tenant  *tenant
	cell    meter.Cell
	brought meter.Figures // see Changes, whose caller alone uses it
}

// tenant is one of which a script was called.
type tenant struct {
	name   string
	places int
	rest   meter.Cell // calls of scripts without a place
	// Guarded by Stats.mu.
	past  meter.Use     // of scripts that have no place any more
	taken meter.Use     // see TakeUse
	moved time.Duration // when there was something to take

	brought meter.Figures // of rest; as that of a place
}

// headStart is how old the clock of cells is when it starts: a cell's Last is 0 if there was no call.
const headStart = time.Hour

// New returns Stats that have seen no call. It fails only if the metrics are registered already.
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

// Ended implements execute.Observer. Calls of which no release was found are not counted here: anybody can make up
// names.
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
		s.noteAnew(r, call, try || s.mayTry(call.At))
	}
}

// tryEvery is how often a script may ask for a place while all are taken: to find one takes longer than a call.
const tryEvery = 100 * time.Millisecond

// mayTry reports whether a script may ask for a place now.
func (s *Stats) mayTry(at time.Duration) bool {
	last := s.tried.Load()
	return at-time.Duration(last) >= tryEvery && s.tried.CompareAndSwap(last, int64(at))
}

// noteAnew counts a call of a release that has no cell, or may have another one by now. try: it may ask for a place.
func (s *Stats) noteAnew(r *cache.Release, call *meter.Call, try bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cell := s.cellOf(r.Name, call.At, try)
	r.Meter.Store(cell)
	cell.Note(call) // nobody closes a cell meanwhile
}

// Dropped counts lines of a script's log that were left out. A script that there is not counts nothing.
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

// cellOf returns the cell in which calls of the script count. try: the script may take the place of another. s.mu is
// held.
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

// tenant returns what is kept of the tenant. s.mu is held.
func (s *Stats) tenant(name string, at time.Duration) *tenant {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name, moved: at}
		t.rest.Shared = true
		s.tenants[name] = t
	}
	return t
}

// all returns all places and tenants. What loses its place, or is forgotten, after that keeps its figures.
func (s *Stats) all() ([]*place, []*tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.places)), slices.Collect(maps.Values(s.tenants))
}
