package decisionlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// memory is a sink that keeps what it gets. A test can stop it, which blocks writers, and have it fail.
type memory struct {
	stop    sync.Mutex
	mu      sync.Mutex
	lines   []string
	failure error
	closed  bool
}

func (m *memory) Write(_ context.Context, records [][]byte) error {
	m.stop.Lock()
	defer m.stop.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	for _, r := range records {
		m.lines = append(m.lines, string(r))
	}
	return nil
}

func (m *memory) Close(context.Context) error {
	m.closed = true
	return nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
}

func (m *memory) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.lines...)
}

// world is a recorder with what it depends on.
type world struct {
	*decisionlog.Recorder
	tenants map[string]script.TenantSettings
	metrics *prometheus.Registry
	sinks   []*memory
	dir     string
}

func start(tb testing.TB, sinks int, change func(*decisionlog.Config)) *world {
	tb.Helper()
	w := &world{tenants: map[string]script.TenantSettings{}, metrics: prometheus.NewRegistry(), dir: tb.TempDir()}
	w.open(tb, sinks, change)
	return w
}

func (w *world) open(tb testing.TB, sinks int, change func(*decisionlog.Config)) {
	tb.Helper()
	cfg := decisionlog.Config{
		Agent: `node-1`, Spool: filepath.Join(w.dir, "spool"), SpoolBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Metrics: w.metrics,
		Tenants: func(tenant string) script.TenantSettings { return w.tenants[tenant].OrDefaults() },
	}
	w.sinks = nil
	for i := range sinks {
		m := &memory{}
		w.sinks = append(w.sinks, m)
		cfg.Outputs = append(cfg.Outputs, decisionlog.Output{Name: fmt.Sprintf("sink%d", i), ID: fmt.Sprintf("sink-%d", i), Sink: m})
	}
	if change != nil {
		change(&cfg)
	}
	r, err := decisionlog.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	w.Recorder = r
	tb.Cleanup(func() { w.end(tb) })
}

func (w *world) end(tb testing.TB) {
	tb.Helper()
	if err := w.Close(tb.Context()); err != nil && tb.Context().Err() == nil {
		tb.Error(err)
	}
}

// call is a call that ended well, of a script that says nothing of decisions.
func call(tenant string, args ...string) *execute.Ended {
	c := &gateway.Call{Script: tenant + "/route", Origin: gateway.Origin{Protocol: "resp", Caller: "uid 7"}}
	for _, arg := range args {
		c.Args = append(c.Args, []byte(arg))
	}
	reply := &gateway.Reply{Version: 3, Digest: script.DigestOf([]byte("x")), Position: gateway.Position{Revision: 41, Staleness: 1500 * time.Microsecond}}
	return &execute.Ended{
		Call: c, Reply: reply, Start: time.Unix(1_700_000_000, 5_000_000), Took: time.Millisecond, Used: engine.Used{Instructions: 12},
		Release:  &cache.Release{Name: script.Name{Tenant: tenant, Script: "route"}},
		Settings: &script.TenantSettings{},
	}
}

func returns(tb testing.TB, e *execute.Ended, results ...string) *execute.Ended {
	tb.Helper()
	for _, result := range results {
		if err := e.Reply.Append(func(dst []byte) ([]byte, error) { return append(dst, result...), nil }); err != nil {
			tb.Fatal(err)
		}
	}
	return e
}

func fails(e *execute.Ended, err *script.Error) *execute.Ended {
	e.Err, e.Kind = err, err.Kind
	return e
}

func parse(t *testing.T, line string) (r decision.Record) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// recorded returns the one record of the call.
func recorded(t *testing.T, e *execute.Ended) decision.Record {
	t.Helper()
	w := start(t, 1, nil)
	if err := w.Ended(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.end(t)
	lines := w.sinks[0].all()
	if len(lines) != 1 {
		t.Fatalf("there are %d records, want one: %q", len(lines), lines)
	}
	return parse(t, lines[0])
}
