package execute

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
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
		gauge("scriptorium_agent_calls_running", "Calls that are running.", func() float64 { return float64(x.gate.Stats().Running) }),
		gauge("scriptorium_agent_calls_waiting", "Calls that wait for their turn.", func() float64 { return float64(x.gate.Stats().Waiting) }),
		gauge("scriptorium_agent_calls_paused", "Calls that gave their turn to others and wait to go on.", func() float64 { return float64(x.gate.Stats().Paused) }),
		counter("scriptorium_agent_call_pauses_total", "How often a running call gave its turn to others.", func() float64 { return float64(x.gate.Stats().Pauses) }),
		counter("scriptorium_agent_running_seconds_total", "Time that calls ran for, all together: the processors that scripts take.", func() float64 { return x.gate.Stats().Used.Seconds() }),
		gauge("scriptorium_agent_scripts", "Live scripts, disabled ones included.", func() float64 { return float64(x.table.Len()) }),
		gauge("scriptorium_agent_programs", "Compiled programs.", func() float64 { return float64(x.programs.Stats().Programs) }),
		gauge("scriptorium_agent_program_bytes", "Bytes that compiled programs hold, estimated.", func() float64 { return float64(x.programs.Stats().Bytes) }),
		counter("scriptorium_agent_program_loads_total", "Programs compiled because a call needed them.", func() float64 { return float64(x.programs.Stats().Misses) }),
		counter("scriptorium_agent_program_evictions_total", "Programs that gave way to others.", func() float64 { return float64(x.programs.Stats().Evictions) }),
	}
	for _, reason := range admission.Reasons() {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "scriptorium_agent_calls_overloaded_total",
			Help:        "Calls that were answered OVERLOADED, by the bound that they met.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(x.gate.Stats().Overloaded[reason]) }))
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
