// Package host is what an agent lends to the programs that it runs: it implements
// engine.Host. What scripts log goes to the agent's own log and, while somebody reads
// along, to the registry. Counters and buckets are the node's alone, and are forgotten
// when the agent ends.
package host

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// forgetEvery is how often the host looks for what it can forget.
const forgetEvery = time.Minute

// Values are the tenants' key-value data: see engine.Host, which has both methods.
type Values interface {
	Value(tenant, key string) (content []byte, ok bool, err error)
	Keys(tenant, prefix, after string, limit int) []string
}

// Config of a Host.
type Config struct {
	// Agent is the name that lines are sent under.
	Agent string
	// Values that scripts read.
	Values Values
	// Tenants returns a tenant's settings; zero fields mean their defaults. It is called
	// for each line.
	Tenants func(tenant string) script.TenantSettings
	// Send sends lines to whoever reads along. It is called by Run alone. nil means that
	// nobody can.
	Send func(*eventv1.Logs) error
	// Keep, if not nil, gets each line that scripts may log, to keep it for those who look later. It
	// copies the texts.
	Keep func(of script.Name, l logring.Line)
	// Log gets what scripts log; nil means slog.Default().
	Log *slog.Logger
	// Metrics gets the host's metrics, if not nil.
	Metrics prometheus.Registerer
	// Dropped, if not nil, is called by Run with the lines of a script that were left out.
	Dropped func(of script.Name, lines uint64)
	// CounterMetrics makes each counter of each tenant a metric, too: up to 1,000 series
	// a tenant.
	CounterMetrics bool
}

// Host is engine.Host for one agent.
type Host struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	tails   tails

	nameBytes int // of the agent's name in each line

	mu      sync.RWMutex
	tenants map[string]*tenant

	noisyMu sync.Mutex
	noisy   []*tenant // of which lines were dropped since that was last said
}

var _ engine.Host = (*Host)(nil)

// tenant is what the host keeps of one tenant.
type tenant struct {
	name string

	mu       sync.Mutex
	gone     bool // it was forgotten, and another takes its place
	logs     bucket
	scripts  map[string]*source
	noisy    []*source // of which lines were dropped since that was last said
	counters map[string]float64
	buckets  buckets
}

// New returns a host. It serves at once; Run sends what is read along. It fails only if
// its metrics are registered already.
func New(cfg Config) (*Host, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Host{cfg: cfg, log: cfg.Log, nameBytes: quotedBytes(cfg.Agent), tenants: make(map[string]*tenant)}
	h.tails.init()
	m, err := newMetrics(cfg.Metrics, h)
	if err != nil {
		return nil, fmt.Errorf("register the host's metrics: %w", err)
	}
	h.metrics = m
	return h, nil
}

// Value is engine.Host's.
func (h *Host) Value(tenant, key string) ([]byte, bool, error) {
	return h.cfg.Values.Value(tenant, key)
}

// Keys is engine.Host's.
func (h *Host) Keys(tenant, prefix, after string, limit int) []string {
	return h.cfg.Values.Keys(tenant, prefix, after, limit)
}

// Count is engine.Host's.
func (h *Host) Count(tenant, counter string, n float64) (float64, error) {
	t := h.lock(tenant)
	defer t.mu.Unlock()
	return t.count(counter, n)
}

// Take is engine.Host's.
func (h *Host) Take(tenant, bucket string, n, rate, burst float64) (ok bool, wait time.Duration) {
	t := h.lock(tenant)
	defer t.mu.Unlock()
	return t.buckets.take(time.Now(), bucket, n, rate, burst)
}

// tenant returns what is kept of the tenant.
func (h *Host) tenant(name string) *tenant {
	h.mu.RLock()
	t := h.tenants[name]
	h.mu.RUnlock()
	if t != nil {
		return t
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tenants[name]; t != nil {
		return t
	}
	t = &tenant{name: name, scripts: make(map[string]*source), counters: make(map[string]float64)}
	h.tenants[name] = t
	return t
}

// lock returns what is kept of the tenant, with its mu locked.
func (h *Host) lock(name string) *tenant {
	for {
		t := h.tenant(name)
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
	}
}

// forget forgets what nobody would notice to be gone: buckets that are full again,
// also of scripts that have logged, and tenants of which nothing is left.
// It is called now and then, so that tenants and names that were used once do not stay
// for ever.
func (h *Host) forget(now time.Time) {
	for _, t := range h.all() {
		t.mu.Lock()
		t.buckets.forgetFull(now)
		t.forgetQuiet(now)
		t.gone = len(t.counters) == 0 && len(t.buckets.byName) == 0 && len(t.scripts) == 0 && t.logs.isFull(now)
		gone := t.gone
		t.mu.Unlock()
		if !gone {
			continue
		}
		h.mu.Lock()
		if h.tenants[t.name] == t {
			delete(h.tenants, t.name)
		}
		h.mu.Unlock()
	}
}

// all returns all tenants that something is kept of.
func (h *Host) all() []*tenant {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make([]*tenant, 0, len(h.tenants))
	for _, t := range h.tenants {
		all = append(all, t)
	}
	return all
}
