package registryd

import (
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newEtcdMetrics returns how long etcd takes. All series are there before the first request.
func newEtcdMetrics() *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "etcd_request_seconds",
		Help:    "Time that etcd took to answer, by request: read, write or other; and by outcome: ok or failed.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
	}, []string{"request", "outcome"})
	for _, request := range []string{"read", "write", "other"} {
		for _, outcome := range []string{"ok", "failed"} {
			seconds.WithLabelValues(request, outcome)
		}
	}
	return seconds
}

// observeEtcd counts requests of the store.
func observeEtcd(seconds *prometheus.HistogramVec) func(method string, took time.Duration, failed bool) {
	return func(method string, took time.Duration, failed bool) {
		request, outcome := "other", "ok"
		switch path.Base(method) {
		case "Range":
			request = "read"
		case "Txn", "Put", "DeleteRange":
			request = "write"
		}
		if failed {
			outcome = "failed"
		}
		seconds.WithLabelValues(request, outcome).Observe(took.Seconds())
	}
}
