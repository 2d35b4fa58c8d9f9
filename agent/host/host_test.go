package host_test

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// newHost returns a host with what cfg leaves out.
func newHost(tb testing.TB, cfg host.Config) *host.Host {
	tb.Helper()
	if cfg.Values == nil {
		cfg.Values = &enginetest.Host{}
	}
	if cfg.Tenants == nil {
		cfg.Tenants = func(string) script.TenantSettings { return script.TenantSettings{} }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Agent = cmp.Or(cfg.Agent, "node-1")
	h, err := host.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func TestConformance(t *testing.T) {
	enginetest.RunHost(t, func(t *testing.T, values map[string]map[string]string) engine.Host {
		t.Helper()
		return newHost(t, host.Config{Values: &enginetest.Host{Values: values}})
	})
}

func TestConformanceOfTheFake(t *testing.T) {
	enginetest.RunHost(t, func(_ *testing.T, values map[string]map[string]string) engine.Host {
		return &enginetest.Host{Values: values, MaxCounters: 1000}
	})
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	newHost(t, host.Config{Metrics: reg})
	if _, err := host.New(host.Config{Metrics: reg}); err == nil {
		t.Error("no error for metrics that are there already")
	}
}

func TestBucketsFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, host.Config{})
		for range 3 {
			if ok, _ := h.Take("acme", "a", 1, 2, 3); !ok {
				t.Fatal("a full bucket of 3 has fewer")
			}
		}
		ok, wait := h.Take("acme", "a", 1, 2, 3)
		if ok || wait != 500*time.Millisecond {
			t.Errorf("an empty bucket: %v, %v", ok, wait)
		}
		<-time.After(wait)
		if ok, _ := h.Take("acme", "a", 1, 2, 3); !ok {
			t.Error("too few after the wait that was named")
		}
		<-time.After(time.Hour)
		if ok, _ := h.Take("acme", "a", 3.5, 2, 3); ok {
			t.Error("it holds more than its burst")
		}
		if ok, wait := h.Take("acme", "b", 1, 1e-300, 1e-300); ok || wait <= 0 {
			t.Errorf("never: %v, %v", ok, wait)
		}
	})
}

// TestBucketsAreForgotten uses more buckets than there may be: what is used goes on, and
// of the others full ones go first.
func TestBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, host.Config{})
		empty := func(name string, rate float64) {
			t.Helper()
			if ok, _ := h.Take("acme", name, 1, rate, 1); !ok {
				t.Fatalf("%s is not full", name)
			}
		}
		empty("slow", 1e-9)
		empty("fast", 1e9)
		empty("used", 1e-9)
		<-time.After(time.Second) // fast is full again
		for i := range 9_997 {
			empty(fmt.Sprint("more", i), 1e-9)
		}
		empty("one too many", 1e-9)
		if ok, _ := h.Take("acme", "slow", 1, 1e-9, 1); ok {
			t.Error("a bucket that is not full was forgotten before one that is")
		}
		if ok, _ := h.Take("acme", "used", 1, 1e-9, 1); ok {
			t.Error("two buckets were forgotten for one")
		}
		for i := range 20_000 {
			empty(fmt.Sprint("flood", i), 1e-9)
			if ok, _ := h.Take("acme", "used", 1, 1e-9, 1); ok {
				t.Fatalf("a bucket in use was forgotten after %d others", i)
			}
		}
		if ok, _ := h.Take("acme", "slow", 1, 1e-9, 1); !ok {
			t.Error("30,000 buckets are kept")
		}
	})
}

// TestNothingIsKeptForNothing: of tenants that came once, and of buckets that are full
// again, nothing is left after a while; of others all is.
func TestNothingIsKeptForNothing(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, _ *reader) {
		t.Helper()
		for i := range 500 {
			tenant := fmt.Sprint("tenant-", i)
			h.Take(tenant, "once", 1, 1, 1)
			h.Log(loud(tenant, "a"), engine.Info, "x")
			h.Count(tenant, "looked at", 0)
		}
		for i := range 1000 {
			h.Take("busy", fmt.Sprint("once-", i), 1, 1, 1)
		}
		h.Take("busy", "slow", 1, 1e-9, 1)
		h.Count("counted", "hits", 1)
		if tenants, buckets := h.Kept(); tenants != 502 || buckets != 1501 {
			t.Fatalf("%d tenants with %d buckets", tenants, buckets)
		}
		wait(3 * time.Minute)
		if tenants, buckets := h.Kept(); tenants != 2 || buckets != 1 {
			t.Errorf("%d tenants with %d buckets are left", tenants, buckets)
		}
		if ok, _ := h.Take("busy", "slow", 1, 1e-9, 1); ok {
			t.Error("an empty bucket was forgotten")
		}
		if n, _ := h.Count("counted", "hits", 0); n != 1 {
			t.Errorf("a counter is %v", n)
		}
	})
}

func TestCounterMetrics(t *testing.T) {
	for _, asked := range []bool{false, true} {
		reg := prometheus.NewRegistry()
		h := newHost(t, host.Config{Metrics: reg, CounterMetrics: asked})
		for _, n := range []float64{1, 2} {
			if _, err := h.Count("acme", "hits", n); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Count("other", "hits", -1); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{}
		if asked {
			want = map[string]float64{"hits acme": 3, "hits other": -1}
		}
		if got := gathered(t, reg, "scriptorium_script_counter"); !maps.Equal(got, want) {
			t.Errorf("metrics %v, want %v", got, want)
		}
	}
}

// gathered returns the values of a metric by its labels' values.
func gathered(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetValue())
			}
			values[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func TestCountersStayNumbers(t *testing.T) {
	h := newHost(t, host.Config{})
	for range 3 {
		if got, err := h.Count("acme", "huge", 1.7e308); err != nil || math.IsInf(got, 0) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestAtOnce does everything at once, for the race detector.
func TestAtOnce(t *testing.T) {
	var out bytes.Buffer
	reg := prometheus.NewRegistry()
	h := newHost(t, host.Config{Metrics: reg, CounterMetrics: true, Log: slog.New(slog.NewTextHandler(&out, nil))})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				tenant := fmt.Sprint("tenant-", (worker+i)%3)
				h.Log(&engine.Invocation{Tenant: tenant, Script: fmt.Sprint("s", i%5), Version: 1}, engine.Info, "x")
				h.Tail("fleet", tenant, "", time.Now().Add(time.Second))
				h.Count(tenant, fmt.Sprint("c", i%7), 1)
				h.Take(tenant, fmt.Sprint("b", i%7), 1, 1, 1)
				if i%50 == 0 {
					reg.Gather()
				}
			}
		})
	}
	wg.Wait()
	if n, err := h.Count("tenant-0", "c0", 0); n == 0 || err != nil {
		t.Errorf("c0 = %v, %v", n, err)
	}
}
