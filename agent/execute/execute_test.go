package execute_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fake is an engine whose programs do what their source says: "wait" until the
// call's context is done, "fail", "read" the value of a, or else return the source and the config.
type fake struct{ compile func() }

func (fake) Name() string { return "fake" }

func (fake) Check(engine.Source) error { return nil }

func (f fake) Compile(src engine.Source) (engine.Program, error) {
	if f.compile != nil {
		f.compile()
	}
	return program(src.Code), nil
}

type program string

// whileItRuns is the key of what a program does first, in its call's context.
type whileItRuns struct{}

func (p program) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	if while, ok := ctx.Value(whileItRuns{}).(func(engine.Turn)); ok {
		while(inv.Turn)
	}
	if inv.OnResponse && !p.OnResponse() {
		return nil
	}
	switch p {
	case "wait":
		<-ctx.Done()
		return script.Errorf(script.Timeout, "", "waited")
	case "inspect":
		return res.Append(func(dst []byte) ([]byte, error) {
			return fmt.Appendf(dst, "%s/%s@%d %d %v %d %s %v %v %d", inv.Tenant, inv.Script, inv.Version, inv.Limits.Instructions,
				inv.Limits.Timeout, inv.Limits.Concurrency, inv.Traceparent, inv.Host, inv.Turn != nil, inv.Memory>>20), nil
		})
	case "read":
		content, _, err := inv.Host.Value(inv.Tenant, "a")
		if err != nil {
			return err
		}
		return res.Append(func(dst []byte) ([]byte, error) { return append(dst, content...), nil })
	case "late":
		return script.Errorf(script.Timeout, "", "late")
	case "fail":
		return &script.Error{Kind: script.Script, Message: "boom", Line: 3}
	}
	for _, value := range []string{string(p), string(inv.Config)} {
		if err := res.Append(func(dst []byte) ([]byte, error) { return append(dst, value...), nil }); err != nil {
			return err
		}
	}
	return nil
}

// OnResponse: a program that says so answers with what it is.
func (p program) OnResponse() bool { return strings.HasPrefix(string(p), "responds ") }

func (p program) Size() int { return len(p) }

func (program) Close() {}

// node is a table, a cache and an executor over sources in memory.
type node struct {
	*execute.Executor
	table     *cache.Table
	metrics   *prometheus.Registry
	revision  script.Revision
	settings  script.TenantSettings // of all tenants
	compile   func()                // while a program is compiled
	host      engine.Host           // nil for one that has a name alone
	contents  execute.Contents
	observers []execute.Observer
	profiles  *profile.Profiles

	mu      sync.RWMutex
	sources map[script.Digest][]byte
}

func (n *node) Source(_ context.Context, d script.Digest) ([]byte, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if src, ok := n.sources[d]; ok {
		return src, nil
	}
	return nil, script.Errorf(script.Unavailable, "", "the registry cannot be reached")
}

func newNode(tb testing.TB, budget int64, running, waiting int) *node {
	tb.Helper()
	n := &node{}
	n.start(tb, fake{func() {
		if n.compile != nil {
			n.compile()
		}
	}}, budget, running, waiting)
	return n
}

// start has n run its scripts, each of the engine "fake", by e.
func (n *node) start(tb testing.TB, e engine.Engine, budget int64, running, waiting int) {
	tb.Helper()
	if n.host == nil {
		n.host = namedHost{}
	}
	n.table, n.sources, n.metrics = cache.NewTable(), map[script.Digest][]byte{}, prometheus.NewRegistry()
	x, err := execute.New(execute.Config{
		Table: n.table,
		Programs: cache.NewPrograms(cache.Config{
			Engines: map[string]engine.Engine{"fake": e}, Sources: n, Budget: budget,
		}),
		Position: func(time.Time) gateway.Position {
			return gateway.Position{Revision: 42, Staleness: time.Second}
		},
		Tenants: func(string) script.TenantSettings { return n.settings }, Host: n.host, Contents: n.contents,
		MaxRunning: running, MaxWaiting: waiting, Metrics: n.metrics, Observers: n.observers, Profiles: n.profiles,
	})
	if err != nil {
		tb.Fatal(err)
	}
	n.Executor = x
}

// publish makes versions 1… of acme/name live, the last active, and keeps the
// sources of those alone that are not empty.
func (n *node) publish(name string, change func(*script.Release), sources ...string) {
	n.revision++
	r := script.Release{Name: script.Name{Tenant: "acme", Script: name}, Revision: n.revision, Enabled: true}
	n.mu.Lock()
	for i, src := range sources {
		text := strings.TrimPrefix(src, "remote ")
		r.Active = script.Version{Number: uint64(i + 1), Digest: script.DigestOf([]byte(text)), Engine: "fake"}
		r.Retained = append(r.Retained, r.Active)
		if text == src {
			n.sources[r.Active.Digest] = []byte(src)
		}
	}
	n.mu.Unlock()
	if change != nil {
		change(&r)
	}
	n.table.Update([]*cache.Release{cache.NewReleaseOn(script.Agent{Name: "n"}, r)}, nil)
}

func TestExecute(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	n.publish("route", func(r *script.Release) {
		r.Retained = append(r.Retained[:1:1], r.Retained[2:]...)
		r.Settings.Config = []byte(`{"a":1}`)
	}, "one", "two", "remote three", "four")
	n.publish("off", func(r *script.Release) { r.Enabled = false }, "one")
	n.publish("bad", nil, "fail")
	tests := []struct {
		ref, result string
		version     uint64
		kind        script.Kind
		says        string
	}{
		{"acme/route", "four", 4, "", ""},
		{"acme/route@4", "four", 4, "", ""},
		{"acme/route@1", "one", 1, "", ""},
		{"acme/route@2", "", 0, script.NotFound, "it keeps 1, 3, 4"},
		{"acme/route@9", "", 0, script.NotFound, "it keeps 1, 3, 4"},
		{"acme/route@3", "", 3, script.Unavailable, "acme/route@3 cannot be run now"},
		{"acme/route@0", "", 0, script.Invalid, "tenant/name@N"},
		{"acme/route@", "", 0, script.Invalid, "tenant/name@N"},
		{"acme/nothing", "", 0, script.NotFound, "publish it"},
		{"acme/nothing@1", "", 0, script.NotFound, "publish it"},
		{"acme/off", "", 0, script.Disabled, "scriptctl enable acme/off"},
		{"acme/off@1", "", 0, script.Disabled, "scriptctl enable acme/off"},
		{"acme/bad", "", 1, script.Script, "boom"},
		{"acme", "", 0, script.Invalid, "tenant/name"},
		{"", "", 0, script.Invalid, "tenant/name"},
		{"Acme/Route", "", 0, script.Invalid, "DNS label"},
		{"acme/\x00", "", 0, script.Invalid, "DNS label"},
		{strings.Repeat("x", 1<<20), "", 0, script.Invalid, ""},
	}
	for _, tt := range tests {
		var reply gateway.Reply
		err := n.Execute(t.Context(), &gateway.Call{Script: tt.ref}, &reply)
		name := fmt.Sprintf("%.20q", tt.ref)
		if script.KindOf(err) != tt.kind || (err != nil && !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: error %v, want %s that says %q", name, err, tt.kind, tt.says)
			continue
		}
		if reply.Version != tt.version || reply.Digest.IsZero() != (tt.version == 0) || reply.Position.Revision != 42 {
			t.Errorf("%s: reply %+v", name, reply)
		}
		if err != nil && reply.Len() != 0 {
			t.Errorf("%s: a failed call has results", name)
		}
		if err == nil && (string(reply.Value(0)) != tt.result || string(reply.Value(1)) != `{"a":1}`) {
			t.Errorf("%s: result %q, config %q", name, reply.Value(0), reply.Value(1))
		}
	}
	families, err := n.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "scriptorium_agent_calls_total" {
			continue
		}
		calls := 0.0
		for _, m := range f.GetMetric() {
			calls += m.GetCounter().GetValue()
		}
		if calls != float64(len(tests)) || len(f.GetMetric()) != 11 {
			t.Errorf("%v calls were counted in %d series", calls, len(f.GetMetric()))
		}
	}
	if list := n.List(); len(list) != 3 || list[0].Name.Script != "bad" || list[2].Active.Number != 4 {
		t.Errorf("list %+v", list)
	}
}

// namedHost is what programs get of this agent: a name.
type namedHost struct{ engine.Host }

func (namedHost) String() string { return "the host" }

func TestWhatProgramsGet(t *testing.T) {
	n := newNode(t, 1<<20, 1, 1)
	n.publish("see", func(r *script.Release) { r.Settings.Limits.Timeout = 2 * time.Second }, "one", "inspect")
	for _, tt := range []struct {
		settings script.TenantSettings
		want     string
	}{
		{script.TenantSettings{}, "acme/see@2 1000000 2s 0 00-trace the host true 256"},
		{
			script.TenantSettings{Limits: script.Limits{Instructions: 5000, Timeout: time.Second, Concurrency: 3}},
			"acme/see@2 5000 1s 3 00-trace the host true 256",
		},
		{script.TenantSettings{MemoryBytes: 64 << 20}, "acme/see@2 1000000 2s 0 00-trace the host true 64"},
		{ // whose process has a bound of its own
			script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 64 << 20},
			"acme/see@2 1000000 2s 0 00-trace the host true 0",
		},
	} {
		n.settings = tt.settings
		var reply gateway.Reply
		err := n.Execute(t.Context(), &gateway.Call{Script: "acme/see", Traceparent: "00-trace"}, &reply)
		if err != nil || string(reply.Value(0)) != tt.want {
			t.Errorf("%q, %v, want %q", reply.Value(0), err, tt.want)
		}
	}
}

// However many calls come, as many run as the tenant's settings say, from the next
// call on.
func TestTenantsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1<<20, 8, 8)
		n.publish("wait", nil, "wait")
		n.publish("route", nil, "one")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- n.Execute(ctx, &gateway.Call{Script: "acme/wait"}, &gateway.Reply{}) }()
		}
		synctest.Wait()
		n.settings.Concurrency = 2
		err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &gateway.Reply{})
		if script.KindOf(err) != script.Overloaded || script.AsError(err).Field != "tenant.concurrency" {
			t.Errorf("a third call: %v", err)
		}
		n.settings.Concurrency = 3
		if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &gateway.Reply{}); err != nil {
			t.Errorf("with room for three: %v", err)
		}
		cancel()
		<-done
		<-done
	})
}

// A tenant that sets none has the default number of calls in progress.
func TestDefaultConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := script.DefaultTenantSettings().Concurrency
		n := newNode(t, 1<<20, 2*most, 2*most)
		n.publish("wait", nil, "wait")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, most)
		for range most {
			go func() { done <- n.Execute(ctx, &gateway.Call{Script: "acme/wait"}, &gateway.Reply{}) }()
		}
		synctest.Wait()
		err := n.Execute(t.Context(), &gateway.Call{Script: "acme/wait"}, &gateway.Reply{})
		if script.KindOf(err) != script.Overloaded || script.AsError(err).Field != "tenant.concurrency" {
			t.Errorf("one more than %d: %v", most, err)
		}
		cancel()
		for range most {
			<-done
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 1<<20, 2, 6) // of one tenant, three wait
		n.publish("wait", func(r *script.Release) { r.Settings.Limits.Timeout = time.Second }, "wait")
		n.publish("route", nil, "one")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call := func(ctx context.Context, name string) error {
			return n.Execute(ctx, &gateway.Call{Script: name}, &gateway.Reply{})
		}
		running := make(chan error, 2)
		for range 2 {
			go func() { running <- call(ctx, "acme/wait") }()
		}
		synctest.Wait()
		waiting := make(chan error, 3)
		for range 2 {
			go func() { waiting <- call(t.Context(), "acme/wait") }()
		}
		go func() {
			short, done := context.WithTimeout(t.Context(), time.Millisecond)
			defer done()
			waiting <- call(short, "acme/route")
		}()
		synctest.Wait()

		began := time.Now()
		err := call(t.Context(), "acme/route")
		if script.KindOf(err) != script.Overloaded || time.Since(began) != 0 {
			t.Errorf("one too many: %v after %v", err, time.Since(began))
		}
		if err := <-waiting; script.KindOf(err) != script.Overloaded || time.Since(began) != time.Millisecond ||
			err.Error() != "the call's time ran out while it waited for its turn" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its deadline passed: %v after %v", err, time.Since(began))
		}
		for range 2 {
			if err := <-waiting; script.KindOf(err) != script.Overloaded || time.Since(began) != time.Second {
				t.Errorf("as long as it may run: %v after %v", err, time.Since(began))
			}
		}
		cancel()
		for range 2 {
			if err := <-running; script.KindOf(err) != script.Timeout {
				t.Errorf("running: %v", err)
			}
		}
		if err := call(t.Context(), "acme/route"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A script edited while calls are in flight never yields an error or a mixed
// answer, although the cache holds one program and each edit removes the source
// of the version before.
func TestEditUnderFire(t *testing.T) {
	n := newNode(t, 1, 4, 1024)
	n.publish("route", func(r *script.Release) { r.Settings.Config = []byte("first") }, "first")
	var done atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var reply gateway.Reply
			last := script.Digest{}
			seen := map[script.Digest]bool{}
			for !done.Load() {
				reply.Reset()
				if err := n.Execute(context.Background(), &gateway.Call{Script: "acme/route"}, &reply); err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
				if script.DigestOf(reply.Value(0)) != reply.Digest || string(reply.Value(1)) != string(reply.Value(0)) {
					t.Errorf("a mixed answer: %q with config %q under %v", reply.Value(0), reply.Value(1), reply.Digest)
					return
				}
				if reply.Digest != last && seen[reply.Digest] {
					t.Errorf("%q came back", reply.Value(0))
					return
				}
				last = reply.Digest
				seen[last] = true
				answered.Add(1)
			}
		})
	}
	for i := range 2000 {
		src := fmt.Sprint(i)
		n.publish("route", func(r *script.Release) { r.Settings.Config = []byte(src) }, src)
		n.mu.Lock()
		clear(n.sources) // as when no version but the active one is retained
		n.sources[script.DigestOf([]byte(src))] = []byte(src)
		n.mu.Unlock()
	}
	done.Store(true)
	wg.Wait()
	t.Logf("%d calls", answered.Load())
}

func TestACallThatIsOverBeforeItBegins(t *testing.T) {
	n := newNode(t, 1<<20, 1, 1)
	n.publish("route", nil, "one")
	if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &gateway.Reply{}); err != nil { // loads it
		t.Fatal(err)
	}
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelLate()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx   context.Context
		says  string
		cause error
	}{
		{late, "the call's time ran out before it began", context.DeadlineExceeded},
		{canceled, "the call was canceled before it began", context.Canceled},
	} {
		err := n.Execute(tt.ctx, &gateway.Call{Script: "acme/route"}, &gateway.Reply{})
		if script.KindOf(err) != script.Timeout || err.Error() != tt.says || !errors.Is(err, tt.cause) {
			t.Errorf("got %v, want %q", err, tt.says)
		}
	}
}

func TestExecuteAllocatesNothing(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	n.publish("route", nil, "one")
	call, reply := &gateway.Call{Script: "acme/route"}, &gateway.Reply{}
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		reply.Reset()
		if err := n.Execute(ctx, call, reply); err != nil {
			t.Error(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations a call", allocs)
	}
}

func TestMetricsCannotBeRegisteredTwice(t *testing.T) {
	n := newNode(t, 1, 1, 1)
	_, err := execute.New(execute.Config{Table: n.table, Metrics: n.metrics})
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); !ok {
		t.Errorf("got %v, %v", err, registered)
	}
}

func BenchmarkExecute(b *testing.B) {
	n := newNode(b, 1<<20, 0, 0)
	n.publish("route", nil, "one")
	call := &gateway.Call{Script: "acme/route"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		reply := &gateway.Reply{}
		for pb.Next() {
			reply.Reset()
			if err := n.Execute(b.Context(), call, reply); err != nil {
				b.Error(err)
			}
		}
	})
}
