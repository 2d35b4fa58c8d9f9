package controller

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/script"
)

// metrics of the controller. Those of its queue and of the time that reconciliations
// take are controller-runtime's.
type metrics struct {
	converged prometheus.Histogram
	requests  *prometheus.CounterVec
	patches   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "scriptorium", "operator"
	m := &metrics{
		converged: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "converged_seconds",
			Help: "Time from when the operator saw a LuaScript's spec until its status said that all connected agents run it.",
			// From what is aimed at, some tens of milliseconds, to a rollout that hangs.
			Buckets: []float64{.01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "registry_requests_total",
			Help: "Requests to the registry about LuaScripts, by what was asked and what it came to: ok, or the kind of the error.",
		}, []string{"request", "outcome"}),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "status_patches_total",
			Help: "Writes of a LuaScript's status, by what they came to: ok or error.",
		}, []string{"outcome"}),
	}
	return m, errors.Join(r.Register(m.converged), r.Register(m.requests), r.Register(m.patches))
}

func (m *metrics) asked(request string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(script.KindOf(err))
	}
	m.requests.WithLabelValues(request, outcome).Inc()
}

func (m *metrics) patched(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.patches.WithLabelValues(outcome).Inc()
}
