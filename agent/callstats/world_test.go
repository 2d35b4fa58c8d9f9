package callstats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// world is Stats over a table with scripts acme/s0, acme/s1, …
type world struct {
	tb      testing.TB
	table   *cache.Table
	stats   *callstats.Stats
	metrics *prometheus.Registry
}

func newWorld(tb testing.TB, cfg callstats.Config, scripts int) *world {
	tb.Helper()
	w := &world{tb: tb, table: cache.NewTable(), metrics: prometheus.NewRegistry()}
	cfg.Table, cfg.Metrics = w.table, w.metrics
	stats, err := callstats.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	w.stats = stats
	w.publish("acme", scripts, 1)
	return w
}

// publish makes that many scripts of the tenant live, in that version.
func (w *world) publish(tenant string, scripts int, version uint64) {
	releases := make([]*cache.Release, scripts)
	for i := range releases {
		releases[i] = cache.NewRelease(script.Release{
			Name: script.Name{Tenant: tenant, Script: fmt.Sprint("s", i)}, Enabled: true, Active: script.Version{Number: version, Engine: "lua"},
		})
	}
	w.table.Update(releases, nil)
}

// ended returns a call of the script that took 3 ms, as the executor shows it; one of no release if there is none.
func (w *world) ended(name string, kind script.Kind) *execute.Ended {
	e := &execute.Ended{
		Call: &gateway.Call{Script: name, Args: [][]byte{[]byte(`"seven"`)}}, Reply: &gateway.Reply{}, Kind: kind,
		Release: w.table.Get(name), Start: time.Now(), Took: 3 * time.Millisecond, Ran: 2 * time.Millisecond,
		Used: engine.Used{Instructions: 100, Allocated: 1000},
	}
	if err := e.Reply.Append(func(dst []byte) ([]byte, error) { return append(dst, "true"...), nil }); err != nil {
		w.tb.Fatal(err)
	}
	return e
}

func (w *world) call(name string, kind script.Kind) {
	w.tb.Helper()
	if err := w.stats.Ended(w.tb.Context(), w.ended(name, kind)); err != nil {
		w.tb.Fatal(err)
	}
}

// gather returns all series of a metric by "tenant/script", with the value of another label before that.
func (w *world) gather(name string) map[string]*dto.Metric {
	w.tb.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.tb.Fatal(err)
	}
	series := map[string]*dto.Metric{}
	for _, f := range families {
		if f.GetName() != "scriptorium_script_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key := labels["tenant"] + "/" + labels["script"]
			if more := labels["outcome"] + labels["version"]; more != "" {
				key = more + " " + key
			}
			series[key] = m
		}
	}
	return series
}

// counters are the values of a counter, as gather has them.
func (w *world) counters(name string) map[string]float64 {
	w.tb.Helper()
	values := map[string]float64{}
	for labels, m := range w.gather(name) {
		values[labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return values
}
