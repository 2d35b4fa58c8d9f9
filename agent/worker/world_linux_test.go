package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/agent/worker/inside"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// This test binary is also the process of a tenant.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err := inside.Run(inside.Config{Engines: []engine.Engine{lua.New(), breaking{}}, Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// breaking is an engine whose programs break their process, or answer with their source.
// That of uncompilable breaks it when it is compiled.
type breaking struct{}

const uncompilable = "uncompilable"

func (breaking) Name() string { return "breaking" }

func (breaking) Check(engine.Source) error { return nil }

func (breaking) Compile(src engine.Source) (engine.Program, error) {
	if string(src.Code) == uncompilable {
		return nil, script.Errorf(script.Internal, "", "%d", deep(1))
	}
	return breaker(src.Code), nil
}

type breaker string

func (b breaker) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	switch string(b) {
	case "wait":
		<-ctx.Done()
		return script.Errorf(script.Timeout, "", "waited")
	case "overflow":
		return script.Errorf(script.Internal, "", "%d", deep(1))
	case "maps":
		m := map[int]int{}
		for {
			go func() { m[1]++ }()
			m[2]++
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	case "heap":
		var held [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += os.Getpagesize() {
				b[i] = 1
			}
			held = append(held, b)
			if len(held) > 1<<20 {
				return nil
			}
		}
	}
	return res.Append(func(dst []byte) ([]byte, error) {
		return fmt.Appendf(dst, `"%s of %s"`, string(b), inv.Script), nil
	})
}

func (breaker) OnResponse() bool { return false }

func (breaker) Size() int { return 100 }

func (breaker) Close() {}

// deep recurses until the stack of Go is full, which ends a process.
func deep(n int) int {
	if n < 0 {
		return 0
	}
	var room [1024]byte
	room[n%len(room)] = 1
	return deep(n+1) + int(room[0])
}

// world is the tables of an agent with a pool of processes.
type world struct {
	tb       testing.TB
	dir      string
	pool     *worker.Pool
	router   gateway.Executor
	table    *cache.Table
	values   *cache.Values
	tenants  *cache.Tenants
	metrics  *prometheus.Registry
	log      *safeBuffer
	revision script.Revision
	changed  chan struct{}

	mu      sync.Mutex
	sources map[script.Digest][]byte
}

func newWorld(tb testing.TB, change func(*worker.Config), walledOff ...script.Tenant) *world {
	tb.Helper()
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		tb.Fatal(err)
	}
	cgroup := ownCgroup(tb, filepath.Base(dir))
	w := &world{
		tb: tb, dir: dir, sources: map[script.Digest][]byte{}, metrics: prometheus.NewRegistry(), log: &safeBuffer{},
		table: cache.NewTable(), tenants: cache.NewTenants(), changed: make(chan struct{}, 100),
	}
	w.values = cache.NewValues(contents{w}, 1<<20)
	w.tenants.Update(walledOff, nil)
	position := func(time.Time) gateway.Position {
		return gateway.Position{Revision: 42, Staleness: time.Second}
	}
	engines := map[string]engine.Engine{"lua": lua.New(), "breaking": breaking{}}
	local, err := execute.New(execute.Config{
		Table: w.table, Programs: cache.NewPrograms(cache.Config{Engines: engines, Sources: w, Budget: 1 << 20}),
		Position: position, Tenants: w.tenants.Settings,
	})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := worker.Config{
		Node:    worker.Node{Table: w.table, Values: w.values, Tenants: w.tenants, Content: w.content, Position: position, OnError: local.OnError},
		Command: []string{"worker"}, Dir: filepath.Join(dir, "tenants"), Cgroup: cgroup,
		Changed: func() { w.changed <- struct{}{} },
		Log:     slog.New(slog.NewTextHandler(w.log, nil)), Metrics: w.metrics,
	}
	if change != nil {
		change(&cfg)
	}
	w.pool, err = worker.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	w.router = w.pool.Router(local)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.pool.Shutdown(ctx); err != nil {
			tb.Errorf("shut down: %v", err)
		}
		os.RemoveAll(dir)
		if tb.Failed() {
			tb.Logf("the log:\n%s", w.log)
		}
	})
	return w
}

// walled returns a tenant that has a process.
func walled(name string) script.Tenant {
	return script.Tenant{Name: name, Revision: 1, Settings: script.TenantSettings{Isolation: script.IsolationProcess}}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type contents struct{ *world }

func (c contents) Content(d script.Digest) ([]byte, error) {
	return c.content(context.Background(), d)
}

// Source implements cache.Sources.
func (w *world) Source(ctx context.Context, d script.Digest) ([]byte, error) {
	return w.content(ctx, d)
}

func (w *world) content(_ context.Context, d script.Digest) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if src, ok := w.sources[d]; ok {
		return src, nil
	}
	return nil, script.Errorf(script.Unavailable, "", "the registry cannot be reached")
}

// keep keeps a content, and returns its digest.
func (w *world) keep(text string) script.Digest {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := script.DigestOf([]byte(text))
	w.sources[d] = []byte(text)
	return d
}

// commit makes a change live, as an agent does.
func (w *world) commit(put []script.Object, removed ...string) {
	w.pool.Committed(put, removed)
	for _, o := range put {
		switch {
		case o.Release != nil:
			w.table.Update([]*cache.Release{cache.NewRelease(*o.Release)}, nil)
		case o.Value != nil:
			w.values.Update([]script.Value{*o.Value}, nil)
		default:
			w.tenants.Update([]script.Tenant{*o.Tenant}, nil)
		}
	}
	for _, key := range removed {
		kind, name, _ := strings.Cut(key, "/")
		switch script.ObjectKind(kind) {
		case script.Releases:
			n, _ := script.ParseName(name)
			w.table.Update(nil, []script.Name{n})
		case script.Values:
			k, _ := script.ParseValueKey(name)
			w.values.Update(nil, []script.ValueKey{k})
		default:
			w.tenants.Update(nil, []string{name})
		}
	}
}

// publish makes versions 1… of a script live, the last active.
func (w *world) publish(language, ref string, sources ...string) {
	w.publishWith(script.Limits{Timeout: 10 * time.Second}, language, ref, sources...) // the machine may be busy
}

func (w *world) publishWith(limits script.Limits, language, ref string, sources ...string) {
	name, err := script.ParseName(ref)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.revision++
	r := script.Release{Name: name, Revision: w.revision, Enabled: true}
	r.Settings.Limits = limits
	for i, src := range sources {
		r.Active = script.Version{Number: uint64(i + 1), Digest: w.keep(src), Engine: language, Size: len(src)}
		if language == "lua" && strings.Contains(src, "function handle") {
			r.Active.Entrypoint = "handle"
		}
		r.Retained = append(r.Retained, r.Active)
	}
	r.Latest = r.Active.Number
	w.commit([]script.Object{{Release: &r}})
}

// call runs a script and returns its first result.
func (w *world) call(ref string, args ...string) (string, error) {
	return w.callWithin(20*time.Second, ref, args...)
}

func (w *world) callWithin(d time.Duration, ref string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	call := &gateway.Call{Script: ref}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	var reply gateway.Reply
	if err := w.router.Execute(ctx, call, &reply); err != nil {
		return "", err
	}
	if reply.Len() == 0 {
		return "", nil
	}
	return string(reply.Value(0)), nil
}

// answer is call for a script that has to answer, now or once its process is there.
func (w *world) answer(ref string, args ...string) string {
	w.tb.Helper()
	var last error
	ok := w.until(func() bool {
		var err error
		var got string
		if got, err = w.call(ref, args...); err == nil {
			last = fmt.Errorf("%s", got)
			return true
		}
		last = err
		return false
	})
	if !ok {
		w.tb.Fatalf("%s does not answer: %v", ref, last)
	}
	return last.Error()
}

// until waits for something to be so.
func (w *world) until(so func() bool) bool {
	w.tb.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// metric returns the sum of a metric's values; with a label, of those alone that have it.
func (w *world) metric(name string, labels ...string) float64 {
	families, err := w.metrics.Gather()
	if err != nil {
		w.tb.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matches := len(labels) == 0
			for _, l := range m.GetLabel() {
				matches = matches || l.GetValue() == labels[0]
			}
			if matches {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}
