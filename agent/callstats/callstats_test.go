package callstats_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCallsAreCountedByScript(t *testing.T) {
	w := newWorld(t, callstats.Config{}, 3)
	w.call("acme/s0", "")
	w.call("acme/s0", "")
	w.call("acme/s0", script.Script)
	w.call("acme/s1", script.Timeout)
	w.call("acme/nothing", script.NotFound)
	w.stats.Dropped(script.Name{Tenant: "acme", Script: "s1"}, 5)
	w.stats.Dropped(script.Name{Tenant: "acme", Script: "nothing"}, 5)
	refused := execute.Unrun(&gateway.Call{}, &gateway.Reply{}, w.table.Get("acme/s1"), time.Now())
	_ = refused.Show(t.Context(), []execute.Observer{w.stats}, script.Errorf(script.Overloaded, "", "no room"))
	for metric, want := range map[string]map[string]float64{
		"calls_total":             {"OK acme/s0": 2, "SCRIPT acme/s0": 1, "OK acme/s1": 0, "TIMEOUT acme/s1": 1, "OVERLOADED acme/s1": 1},
		"instructions_total":      {"acme/s0": 300, "acme/s1": 100},
		"allocated_bytes_total":   {"acme/s0": 3000, "acme/s1": 1000},
		"log_lines_dropped_total": {"acme/s0": 0, "acme/s1": 5},
		"info":                    {"1 acme/s0": 1, "1 acme/s1": 1},
	} {
		if got := w.counters(metric); !maps.Equal(got, want) {
			t.Errorf("%s = %v, want %v", metric, got, want)
		}
	}
	if h := w.gather("call_seconds")["acme/s0"].GetHistogram(); h.GetSampleCount() != 3 || h.GetSampleSum() != 0.009 || len(h.GetBucket()) != 0 {
		t.Errorf("call_seconds = %v, want 3 calls of 3 ms, and no classic buckets", h)
	}
	w.publish("acme", 1, 2)
	w.call("acme/s0", "")
	if got, want := w.counters("info"), map[string]float64{"2 acme/s0": 1, "1 acme/s1": 1}; !maps.Equal(got, want) {
		t.Errorf("after a publish, info = %v, want %v", got, want)
	}
	if got := w.counters("calls_total")["OK acme/s0"]; got != 3 {
		t.Errorf("after a publish, %v calls are counted, want 3", got)
	}
	w.table.Update(nil, []script.Name{{Tenant: "acme", Script: "s0"}})
	if got := w.counters("calls_total"); len(got) != 3 {
		t.Errorf("of a script that was removed there are metrics: %v", got)
	}
}

// TestHistogramIsThatOfPrometheus compares the buckets with those that the client of Prometheus makes of the same
// times.
func TestHistogramIsThatOfPrometheus(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, callstats.Config{Classic: true}, 1)
	reference := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "reference", NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: histogram.ZeroThreshold,
		Buckets: prometheus.ExponentialBuckets(1.0/(1<<18), 4, 12),
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(reference)
	took := func(d time.Duration) {
		e := w.ended("acme/s0", "")
		e.Took = d
		_ = w.stats.Ended(t.Context(), e)
		reference.Observe(d.Seconds())
	}
	for power := range 8 { // the bounds themselves
		took(time.Second << power)
		took(time.Second<<power + 1)
		took(time.Second / (1 << power))
		took(time.Second/(1<<power) - 1)
	}
	for range 20_000 {
		took(time.Duration(random.Int64N(int64(100*time.Second))) >> random.IntN(30))
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want, got := families[0].GetMetric()[0].GetHistogram(), w.gather("call_seconds")["acme/s0"].GetHistogram()
	if got.GetZeroCount() != want.GetZeroCount() || got.GetSampleCount() != want.GetSampleCount() || got.GetSchema() != want.GetSchema() {
		t.Errorf("got %v, want %v", got, want)
	}
	if fmt.Sprint(got.GetPositiveSpan()) != fmt.Sprint(want.GetPositiveSpan()) || fmt.Sprint(got.GetPositiveDelta()) != fmt.Sprint(want.GetPositiveDelta()) {
		t.Errorf("got  %v %v\nwant %v %v", got.GetPositiveSpan(), got.GetPositiveDelta(), want.GetPositiveSpan(), want.GetPositiveDelta())
	}
	if fmt.Sprint(got.GetBucket()) != fmt.Sprint(want.GetBucket()) {
		t.Errorf("classic buckets: got  %v\nwant %v", got.GetBucket(), want.GetBucket())
	}
}

// TestCardinality attacks with 100,000 scripts of one tenant, names that there are not, versions that there are not, and
// a publish of each script: there are no more series than for the places, and those of another tenant stay.
func TestCardinality(t *testing.T) {
	const scripts, places = 100_000, 1000
	w := newWorld(t, callstats.Config{}, scripts)
	w.publish("shop", 3, 1)
	calls := 0
	call := func(name string, kind script.Kind) {
		w.call(name, kind)
		calls++
	}
	for version := range uint64(2) {
		for i := range scripts {
			call(fmt.Sprint("acme/s", i), "")
			if i%1000 == 0 {
				e := w.ended("acme/s0", script.NotFound)
				e.Call.Script = fmt.Sprintf("acme/s0@%d", 1000+i)
				_ = w.stats.Ended(t.Context(), e)
				calls++
				w.call(fmt.Sprint("acme/random-", i), script.NotFound)
				w.call(fmt.Sprint("tenant-", i, "/random"), script.NotFound)
			}
		}
		if version == 0 { // shop comes when all places are taken
			ended := w.ended("shop/s0", "")
			for i := range 3 {
				ended.Release = w.table.Get(fmt.Sprint("shop/s", i))
				for range 2 { // the first one finds its cell, the second one asks for a place
					ended.Start = ended.Start.Add(time.Second)
					_ = w.stats.Ended(t.Context(), ended)
					calls++
				}
			}
		}
		w.publish("acme", scripts, version+2)
	}
	total, shop := 0.0, 0
	for labels, n := range w.counters("calls_total") {
		total += n
		if strings.Contains(labels, "shop/") {
			shop++
		}
	}
	if series := len(w.gather("call_seconds")); series != places+1 {
		t.Errorf("there are histograms of %d scripts, want %d and other", series, places)
	}
	if series := len(w.gather("info")); series != places {
		t.Errorf("there are infos of %d versions, want %d", series, places)
	}
	if shop != 3 {
		t.Errorf("%d scripts of the other tenant have a place, want 3", shop)
	}
	if other := w.counters("calls_total")["OK other/other"]; other == 0 || total > float64(calls) {
		t.Errorf("%v calls are of other scripts, and %v of all are counted; there were %d", other, total, calls)
	}
	uses := w.stats.TakeUse(10)
	if len(uses) != 2 || uses[0].Tenant != "acme" || uses[0].Calls+uses[1].Calls != uint64(calls) {
		t.Errorf("the tenants used %+v, want %d calls", uses, calls)
	}
}

// TestPlacesChange: a script gets a place of one that was not called for a minute, and its calls until then count as
// other, which never goes down.
func TestPlacesChange(t *testing.T) {
	w := newWorld(t, callstats.Config{Scripts: 2}, 4)
	start := time.Now()
	call := func(name string, at time.Duration) {
		e := w.ended(name, "")
		e.Start = start.Add(at)
		_ = w.stats.Ended(t.Context(), e)
	}
	call("acme/s0", 0)
	call("acme/s1", 0)
	call("acme/s2", 30*time.Second)
	call("acme/s1", 50*time.Second)
	call("acme/s2", 55*time.Second)
	if got, want := w.counters("calls_total"), (map[string]float64{"OK acme/s0": 1, "OK acme/s1": 2, "OK other/other": 2}); !maps.Equal(got, want) {
		t.Fatalf("calls = %v, want %v", got, want)
	}
	call("acme/s2", 61*time.Second)
	call("acme/s0", 61*time.Second)
	if got, want := w.counters("calls_total"), (map[string]float64{"OK acme/s1": 2, "OK acme/s2": 1, "OK other/other": 3}); !maps.Equal(got, want) {
		t.Fatalf("calls = %v, want %v", got, want)
	}
	w.table.Update(nil, []script.Name{{Tenant: "acme", Script: "s1"}})
	call("acme/s3", 62*time.Second)
	if got, want := w.counters("calls_total"), (map[string]float64{"OK acme/s2": 1, "OK acme/s3": 1, "OK other/other": 3}); !maps.Equal(got, want) {
		t.Fatalf("calls = %v, want %v", got, want)
	}
	if uses := w.stats.TakeUse(1); uses[0].Calls != 8 {
		t.Errorf("the tenant has %d calls, want 8", uses[0].Calls)
	}
}

// TestOtherIsNoScript: a script that is called as the rest is among it.
func TestOtherIsNoScript(t *testing.T) {
	w := newWorld(t, callstats.Config{Scripts: 1}, 0)
	w.table.Update(nil, nil)
	w.publish("other", 2, 1)
	w.call("other/s0", "")
	w.call("other/s1", "")
	if got, want := w.counters("calls_total"), (map[string]float64{"OK other/s0": 1, "OK other/other": 1}); !maps.Equal(got, want) {
		t.Errorf("calls = %v, want %v", got, want)
	}
}

func TestUseIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, callstats.Config{Scripts: 2}, 3)
		w.publish("shop", 2, 1)
		w.publish("tiny", 1, 1)
		for range 10 {
			w.call("acme/s0", "")
			w.call("acme/s1", script.Script)
			w.call("acme/s2", "")
			w.call("shop/s0", "")
		}
		w.call("tiny/s0", "")
		take := func(most int, want ...callstats.TenantUse) {
			t.Helper()
			if got := w.stats.TakeUse(most); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("took %+v, want %+v", got, want)
			}
		}
		use := func(tenant string, calls, errors uint64) callstats.TenantUse {
			return callstats.TenantUse{Tenant: tenant, Use: meter.Use{
				Calls: calls, Errors: errors, Ran: time.Duration(calls) * 2 * time.Millisecond, Instructions: 100 * calls, Allocated: 1000 * calls, In: 7 * calls, Out: 4 * calls,
			}}
		}
		take(2, use("acme", 30, 10), use("shop", 10, 0))
		w.call("shop/s0", "")
		w.call("shop/s0", "")
		take(1, use("shop", 2, 0))
		take(1, use("tiny", 1, 0))
		take(1)
		before := w.counters("calls_total")["OK other/other"]
		<-time.After(2 * time.Hour)
		take(1)
		w.table.Update(nil, []script.Name{{Tenant: "tiny", Script: "s0"}})
		w.call("shop/s0", "")
		w.call("shop/s0", "")
		take(5, use("shop", 2, 0))
		if after := w.counters("calls_total")["OK other/other"]; after < before {
			t.Errorf("calls of other scripts went from %v to %v", before, after)
		}
	})
}

// TestChangesAreBrought: what one Stats counts, another one has after it was brought, once.
func TestChangesAreBrought(t *testing.T) {
	child, parent := newWorld(t, callstats.Config{Scripts: 2}, 3), newWorld(t, callstats.Config{}, 2)
	bring := func(arrives bool) {
		var brought []*callstats.Change
		for c := range child.stats.Changes() {
			if arrives {
				parent.stats.Bring(c.Script, &c.Figures)
				brought = append(brought, c)
			}
		}
		child.stats.Brought(brought)
	}
	for i := range 3 {
		child.call("acme/s0", "")
		child.call("acme/s1", script.Limit)
		child.call("acme/s2", "")
		bring(i != 1)
	}
	bring(true)
	want := map[string]float64{"OK acme/s0": 3, "OK acme/s1": 0, "LIMIT acme/s1": 3, "OK other/other": 3}
	if got := parent.counters("calls_total"); !maps.Equal(got, want) {
		t.Errorf("the parent counts %v, want %v", got, want)
	}
	parent.stats.Bring(script.Name{Tenant: "acme", Script: "deleted"}, &meter.Figures{Use: meter.Use{Calls: 7}})
	if uses := parent.stats.TakeUse(9); len(uses) != 1 || uses[0].Calls != 16 {
		t.Errorf("the parent's tenants used %+v, want 16 calls, also those of a script that was deleted", uses)
	}
}

// TestAtOnce notes, gathers, takes and evicts at once: nothing is lost, and a call allocates nothing.
func TestAtOnce(t *testing.T) {
	const callers, each, scripts = 8, 2000, 50
	w := newWorld(t, callstats.Config{Scripts: 20}, scripts)
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			e := w.ended("acme/s0", "")
			for n := range each {
				e.Release = w.table.Get(fmt.Sprint("acme/s", (n+i)%scripts))
				e.Start = e.Start.Add(time.Second) // places change all the time
				_ = w.stats.Ended(t.Context(), e)
			}
		})
	}
	calls := uint64(0)
	take := func() {
		for _, u := range w.stats.TakeUse(2) {
			calls += u.Calls
		}
	}
	for range 20 {
		if _, err := w.metrics.Gather(); err != nil {
			t.Error(err)
		}
		take()
	}
	calling.Wait()
	if take(); calls != callers*each {
		t.Errorf("%d calls were counted of %d", calls, callers*each)
	}
}

func TestACallAllocatesNothing(t *testing.T) {
	for name, places := range map[string]int{"place": 2, "other": 1} {
		w := newWorld(t, callstats.Config{Scripts: places}, 2)
		w.call("acme/s0", "")
		e := w.ended("acme/s1", script.Script)
		if n := testing.AllocsPerRun(1000, func() { _ = w.stats.Ended(t.Context(), e) }); n != 0 {
			t.Errorf("%s: a call allocates %v times", name, n)
		}
	}
}
