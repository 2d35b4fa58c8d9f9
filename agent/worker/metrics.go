package worker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/script"
)

// metrics of processes. No label grows with the number of tenants.
type metrics struct {
	restarts *prometheus.CounterVec
	replaced prometheus.Histogram
	lost     prometheus.Counter
	calls    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, p *Pool) (*metrics, error) {
	m := &metrics{
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scriptorium_agent_worker_restarts_total",
			Help: "Processes of tenants that were replaced, by reason: killed, memory, crash, exit, unresponsive, slow, settings or failed.",
		}, []string{"reason"}),
		replaced: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scriptorium_agent_worker_replace_seconds",
			Help:    "Time from the end of a tenant's process until another one served on its sockets.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scriptorium_agent_worker_calls_lost_total",
			Help: "Forwarded calls whose process ended while it ran them.",
		}),
	}
	m.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scriptorium_agent_worker_calls_total",
		Help: "Calls that were forwarded to tenants' processes, by outcome: OK, or the kind of the error.",
	}, []string{"outcome"})
	for _, reason := range reasons {
		m.restarts.WithLabelValues(string(reason))
	}
	if reg == nil {
		return m, nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.restarts, m.replaced, m.lost, m.calls,
		gauge("scriptorium_agent_workers", "Tenants that have a process of their own.", func() float64 { return float64(len(*p.byName.Load())) }),
		gauge("scriptorium_agent_workers_serving", "Those of them whose process serves.", func() float64 { return float64(p.serving()) }),
		gauge("scriptorium_agent_worker_spares", "Processes that are ready to take the place of one that ends.", func() float64 { return float64(p.host.ready()) }),
		gauge("scriptorium_agent_worker_memory_bytes", "Resident memory of all processes of tenants.", func() float64 { return float64(p.memory()) }),
		gauge("scriptorium_agent_quarantined_scripts", "Scripts that are kept from running, since they kill their tenant's process.", func() float64 { return float64(len(p.Quarantined())) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of tenants' processes: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) called(err error) {
	outcome := "OK"
	if err != nil {
		outcome = string(script.KindOf(err))
	}
	m.calls.WithLabelValues(outcome).Inc()
}

func (m *metrics) replacedAfter(d time.Duration) { m.replaced.Observe(d.Seconds()) }

func (p *Pool) serving() (n int) {
	for _, t := range *p.byName.Load() {
		if t.serves() {
			n++
		}
	}
	return n
}

func (p *Pool) memory() (bytes int64) {
	for _, s := range p.Status() {
		bytes += s.Memory
	}
	return bytes
}

// reason says why a process was replaced.
type reason string

// The reasons.
const (
	reasonKilled       reason = "killed"       // by a signal, and nobody knows whose
	reasonMemory       reason = "memory"       // it met its cap
	reasonCrash        reason = "crash"        // a fault in the process
	reasonExit         reason = "exit"         // by itself
	reasonUnresponsive reason = "unresponsive" // it gave no sign, and the agent killed it
	reasonSlow         reason = "slow"         // it did not take a change in time, and the agent killed it
	reasonSettings     reason = "settings"     // they ask for another
	reasonFailed       reason = "failed"       // it could not be made to serve
)

var reasons = []reason{
	reasonKilled, reasonMemory, reasonCrash, reasonExit, reasonUnresponsive, reasonSlow, reasonSettings, reasonFailed,
}

// blames reports whether a death for the reason is one of the scripts', of which so many
// ran. What the agent ends for reasons of its own is not; and a signal may be anybody's,
// so that it counts only where there is no doubt who ran.
func (r reason) blames(running int) bool {
	switch r {
	case reasonSlow, reasonSettings, reasonFailed:
		return false
	case reasonKilled:
		return running == 1
	}
	return true
}
