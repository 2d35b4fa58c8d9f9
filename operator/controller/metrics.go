package controller

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the controller. Those of its queue and of the time that reconciliations
// take are controller-runtime's.
type metrics struct {
	converged prometheus.Histogram
	patches   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "scriptorium", "operator"
	m := &metrics{
		converged: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "converged_seconds",
			Help: "Time from when the API server told the operator of a Script's or LuaScript's spec until its status said that all connected agents run it, without specs that were stalled meanwhile, or rolled out in steps.",
			// From what is aimed at, some tens of milliseconds, to a rollout that hangs.
			Buckets: []float64{.01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "status_patches_total",
			Help: "Writes of the status of Scripts and LuaScripts, by what they came to: ok or error.",
		}, []string{"outcome"}),
	}
	return m, errors.Join(r.Register(m.converged), r.Register(m.patches))
}

func (m *metrics) patched(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.patches.WithLabelValues(outcome).Inc()
}
