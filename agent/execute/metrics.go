package execute

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/script"
)

// metrics of calls. No label grows with the number of scripts or tenants.
type metrics struct {
	ok       prometheus.Counter
	failed   map[script.Kind]prometheus.Counter
	internal prometheus.Counter
	duration prometheus.Histogram
}

// kinds that can end a call.
var kinds = []script.Kind{
	script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit,
	script.Overloaded, script.Denied, script.Invalid, script.Unavailable, script.Internal,
}

func newMetrics(reg prometheus.Registerer, x *Executor) (*metrics, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scriptorium_agent_calls_total",
		Help: "Calls by outcome: OK, or the kind of the error.",
	}, []string{"outcome"})
	m := &metrics{
		ok:       calls.WithLabelValues("OK"),
		failed:   map[script.Kind]prometheus.Counter{},
		internal: calls.WithLabelValues(string(script.Internal)),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scriptorium_agent_call_seconds",
			Help:    "Time from call to answer inside the agent, waiting for its turn included.",
			Buckets: prometheus.ExponentialBuckets(4e-6, 4, 12),
		}),
	}
	for _, kind := range kinds {
		m.failed[kind] = calls.WithLabelValues(string(kind))
	}
	if reg == nil {
		return m, nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	collectors := []prometheus.Collector{
		calls, m.duration,
		turns{calls: x.gate, compiles: x.compiles.gate},
		gauge("scriptorium_agent_scripts", "Live scripts, disabled ones included.", func() float64 { return float64(x.table.Len()) }),
		gauge("scriptorium_agent_programs", "Compiled programs.", func() float64 { return float64(x.programs.Stats().Programs) }),
		gauge("scriptorium_agent_program_bytes", "Bytes that compiled programs hold, estimated.", func() float64 { return float64(x.programs.Stats().Bytes) }),
		counter("scriptorium_agent_program_loads_total", "Programs compiled because a call needed them.", func() float64 { return float64(x.programs.Stats().Misses) }),
		counter("scriptorium_agent_program_evictions_total", "Programs that gave way to others.", func() float64 { return float64(x.programs.Stats().Evictions) }),
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) called(err error, took time.Duration) {
	m.duration.Observe(took.Seconds())
	if err == nil {
		m.ok.Inc()
		return
	}
	if c, ok := m.failed[kindOf(err)]; ok {
		c.Inc()
		return
	}
	m.internal.Inc()
}
