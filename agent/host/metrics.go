package host

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a host. No label grows with the number of scripts or tenants, save those of
// the counters, which have to be asked for.
type metrics struct {
	lines, dropped, unsent prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, h *Host) (*metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "scriptorium_agent_log_lines_" + name, Help: help})
		all = append(all, c)
		return c
	}
	m := &metrics{
		lines:   counter("total", "Lines that scripts have logged."),
		dropped: counter("dropped_total", "Lines that were left out since a script or its tenant logs more than it may."),
		unsent:  counter("unsent_total", "Lines that were logged and could not be sent to those who read along."),
	}
	if reg == nil {
		return m, nil
	}
	if h.cfg.CounterMetrics {
		all = append(all, counters{h})
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// counters collects the scripts' counters. They may go down, so they are gauges.
type counters struct{ host *Host }

var counterDesc = prometheus.NewDesc("scriptorium_script_counter",
	"What the scripts of a tenant have counted on this agent, by counter.", []string{"tenant", "counter"}, nil)

// Describe is prometheus.Collector's.
func (counters) Describe(descs chan<- *prometheus.Desc) { descs <- counterDesc }

// Collect is prometheus.Collector's.
func (c counters) Collect(metrics chan<- prometheus.Metric) {
	for _, t := range c.host.all() {
		t.mu.Lock()
		values := maps.Clone(t.counters)
		t.mu.Unlock()
		for name, value := range values {
			metrics <- prometheus.MustNewConstMetric(counterDesc, prometheus.GaugeValue, value, t.name, name)
		}
	}
}
