package worker

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestHomeGivesATenantItsOwn: a process that has been taken over can ask for what it
// likes, and gets what its tenant has.
func TestHomeGivesATenantItsOwn(t *testing.T) {
	contents := map[script.Digest][]byte{}
	object := func(tenant, text string) script.Object {
		d := script.DigestOf([]byte(text))
		contents[d] = []byte(text)
		return script.Object{Value: &script.Value{Key: script.ValueKey{Tenant: tenant, Key: "k"}, Digest: d}}
	}
	cfg := Config{Node: Node{Content: func(_ context.Context, d script.Digest) ([]byte, error) { return contents[d], nil }}}
	h := newHome(cfg.withDefaults())
	defer h.server.Stop()
	ask := func(text string) (string, error) {
		got, err := h.Content(t.Context(), &workerv1.ContentRequest{Digest: wire.FromDigest(script.DigestOf([]byte(text)))})
		return string(got.GetContent()), wire.FromStatus(err)
	}
	own, secret := object("acme", "own"), object("shop", "secret")
	if got, err := ask("own"); script.KindOf(err) != script.NotFound {
		t.Errorf("before it has a tenant: %q, %v", got, err)
	}
	acme := &tenant{name: "acme", retained: map[script.Digest]struct{}{}}
	acme.retain([]script.Object{own}, true)
	h.tenant.Store(acme)
	if got, err := ask("own"); err != nil || got != "own" {
		t.Errorf("its own: %q, %v", got, err)
	}
	if got, err := ask("secret"); script.KindOf(err) != script.NotFound || got != "" {
		t.Errorf("another tenant's %s: %q, %v", secret.Key(), got, err)
	}
	// What a change set stages is its tenant's, too, while the candidate is there.
	staging := func(name script.Name, text string) script.Object {
		d := script.DigestOf([]byte(text))
		contents[d] = []byte(text)
		set := &script.Membership{Name: "cart-2", Attempt: 1, Values: []script.StagedValue{{Key: "k", Digest: d, Size: len(text)}}}
		return script.Object{Release: &script.Release{Name: name, Candidate: &script.Candidate{Set: set}}}
	}
	secret = staging(script.Name{Tenant: "shop", Script: "cart"}, "staged secret")
	acme.retain([]script.Object{staging(script.Name{Tenant: "acme", Script: "cart"}, "staged")}, false)
	if got, err := ask("staged"); err != nil || got != "staged" {
		t.Errorf("what is staged for it: %q, %v", got, err)
	}
	if got, err := ask("staged secret"); script.KindOf(err) != script.NotFound || got != "" {
		t.Errorf("what is staged for another tenant's %s: %q, %v", secret.Key(), got, err)
	}
	acme.retain([]script.Object{own}, true)
	if got, err := ask("staged"); script.KindOf(err) != script.NotFound {
		t.Errorf("what was staged for it: %q, %v", got, err)
	}
	if _, err := h.Content(t.Context(), &workerv1.ContentRequest{Digest: []byte("short")}); script.KindOf(wire.FromStatus(err)) != script.Invalid {
		t.Errorf("no digest: %v", err)
	}
}

// said keeps what is logged.
type said struct {
	engine.Host
	lines []string
}

func (s *said) Log(inv *engine.Invocation, level engine.Level, message string) {
	s.lines = append(s.lines, inv.Tenant+"/"+inv.Script+" "+string(level)+" "+message)
}

// TestHomeAttributesLines: a line is of a script of the tenant, whatever the process says.
func TestHomeAttributesLines(t *testing.T) {
	table := cache.NewTable()
	table.Update([]*cache.Release{
		cache.NewRelease(script.Release{Name: script.Name{Tenant: "acme", Script: "route"}}),
		cache.NewRelease(script.Release{Name: script.Name{Tenant: "shop", Script: "cart"}}),
	}, nil)
	host := &said{}
	h := newHome(Config{Node: Node{Table: table, Tenants: cache.NewTenants()}, Host: host}.withDefaults())
	defer h.server.Stop()
	h.tenant.Store(&tenant{name: "acme"})
	_, err := h.Log(t.Context(), &workerv1.LogRequest{Lines: []*workerv1.LogLine{
		{Script: "route", Level: "warn", Message: "one"},
		{Script: "route", Level: "nonsense", Message: "two"},
		{Script: "cart", Level: "info", Message: "three"},
		{Script: "../shop/cart", Level: "info", Message: "four"},
	}})
	if err != nil || len(host.lines) != 2 || host.lines[0] != "acme/route warn one" || host.lines[1] != "acme/route info two" {
		t.Errorf("%q, %v", host.lines, err)
	}
}

// TestHomeBelievesCallsThatCanBe: what a process counts is its own tenant's, whatever the name of the script, and its
// calls ran no longer than there are processors.
func TestHomeBelievesCallsThatCanBe(t *testing.T) {
	table, metrics := cache.NewTable(), prometheus.NewRegistry()
	table.Update([]*cache.Release{
		cache.NewRelease(script.Release{Name: script.Name{Tenant: "acme", Script: "route"}}),
		cache.NewRelease(script.Release{Name: script.Name{Tenant: "shop", Script: "cart"}}),
	}, nil)
	calls, err := callstats.New(callstats.Config{Table: table, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(Config{Node: Node{Table: table, Tenants: cache.NewTenants()}, Calls: calls}.withDefaults())
	defer h.server.Stop()
	h.tenant.Store(&tenant{name: "acme"})
	one := func(name string, change func(*workerv1.ScriptCalls)) *workerv1.ScriptCalls {
		m := &workerv1.ScriptCalls{Script: name, Outcomes: []uint64{1}, Buckets: []uint64{1}, RanNanos: math.MaxInt64 / 2, TookNanos: math.MaxInt64, Instructions: math.MaxUint64}
		if change != nil {
			change(m)
		}
		return m
	}
	for range 100 {
		_, err := h.Calls(t.Context(), &workerv1.CallsRequest{Scripts: []*workerv1.ScriptCalls{
			one("route", nil), one("cart", nil), one("../shop/cart", nil), one("nothing", nil), one("", nil),
			one("route", func(m *workerv1.ScriptCalls) { m.Outcomes = []uint64{2} }),
			one("route", func(m *workerv1.ScriptCalls) { m.Outcomes = make([]uint64, 1000) }),
			one("route", func(m *workerv1.ScriptCalls) { m.FirstBucket = -1 }),
			one("route", func(m *workerv1.ScriptCalls) { m.FirstBucket = 1000 }),
			one("route", func(m *workerv1.ScriptCalls) { m.RanNanos = -1 }),
			one("route", func(m *workerv1.ScriptCalls) { m.Outcomes, m.Buckets = []uint64{1 << 60}, []uint64{1 << 60} }),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	uses := calls.TakeUse(10)
	if len(uses) != 1 || uses[0].Tenant != "acme" || uses[0].Calls != 500 || uses[0].Instructions != math.MaxUint64 {
		t.Errorf("the calls are %+v, want 500 of acme", uses)
	}
	if most := time.Duration(runtime.NumCPU()) * time.Hour; uses[0].Ran > most {
		t.Errorf("the calls ran for %v, more than %v", uses[0].Ran, most)
	}
	if _, err := metrics.Gather(); err != nil {
		t.Error(err)
	}
}
