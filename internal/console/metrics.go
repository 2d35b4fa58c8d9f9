package console

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what operators see of the console.
type metrics struct {
	signIns  *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

// reasons and ways are the labels that there are.
var (
	reasons = [...]string{"no_session", "session_limit", "content_type", "cross_origin", "other_host", "too_many_attempts"}
	ways    = [...]string{"token", "code", "oidc"}
)

// newMetrics registers them; a nil registerer takes none.
func newMetrics(r prometheus.Registerer, s *sessions) (*metrics, error) {
	const namespace, subsystem = "scriptorium", "console"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	m := &metrics{
		signIns:  counter("sign_ins_total", "Attempts to sign in to the console, by the way and by whether they succeeded.", "way", "result"),
		refusals: counter("requests_refused_total", "Requests of browsers that the console refused, by the reason.", "reason"),
	}
	for _, way := range ways {
		m.signIns.WithLabelValues(way, "ok")
		m.signIns.WithLabelValues(way, "refused")
	}
	for _, reason := range reasons {
		m.refusals.WithLabelValues(reason)
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.signIns), r.Register(m.refusals),
		r.Register(gauge("sessions", "Sessions of browsers that are signed in to the console.", func() int { all, _ := s.count(); return all })),
		r.Register(gauge("streams", "Streams that the console's sessions have open.", func() int { _, streams := s.count(); return streams })))
}

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

func (m *metrics) signedIn(way string, ok bool) {
	result := "refused"
	if ok {
		result = "ok"
	}
	m.signIns.WithLabelValues(way, result).Inc()
}
