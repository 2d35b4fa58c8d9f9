package otelenv

import (
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Queue bounds the items of a signal that wait for its exporter, and counts what it drops. The batch processors of the
// SDK drop items without a trace, so a process gives them only what the Queue admits. It is safe for concurrent use.
type Queue struct {
	// Signal and Items are words of log messages and metrics, such as "traces" and "spans".
	Signal, Items string
	// Size is the number of items that may wait.
	Size int64
	Log  *slog.Logger

	waiting                atomic.Int64
	exported, full, failed atomic.Uint64
	failing                atomic.Bool
	warned                 atomic.Int64
}

// Admit reports whether there is room for one more item, and counts a dropped one if there is not.
func (q *Queue) Admit() bool {
	if q.waiting.Add(1) > q.Size {
		q.waiting.Add(-1)
		q.full.Add(1)
		return false
	}
	return true
}

// Done counts exported items, or dropped ones if the exporter returned an error. It logs when the collector starts and
// stops to fail.
func (q *Queue) Done(items int, err error) {
	q.waiting.Add(-int64(items))
	if err != nil {
		q.failed.Add(uint64(items)) //nolint:gosec // a length
		q.failing.Store(true)
		if Seldom(&q.warned) {
			q.Log.Warn("the collector of "+q.Signal+" does not take "+q.Items+"; they are dropped until it does. Others are logged once a minute", q.Items, items, "error", Reason(err))
		}
		return
	}
	q.exported.Add(uint64(items)) //nolint:gosec // likewise
	if q.failing.Swap(false) {
		q.Log.Info("the collector of " + q.Signal + " takes " + q.Items + " again")
	}
}

// Register registers the metrics PREFIX_exported_total and PREFIX_dropped_total. The second has the reasons "queue",
// "export" and the keys of others.
func (q *Queue) Register(reg prometheus.Registerer, prefix string, exported, dropped string, others map[string]*atomic.Uint64) error {
	counter := func(n *atomic.Uint64, opts prometheus.CounterOpts) error {
		return reg.Register(prometheus.NewCounterFunc(opts, func() float64 { return float64(n.Load()) }))
	}
	if err := counter(&q.exported, prometheus.CounterOpts{Name: prefix + "_exported_total", Help: exported}); err != nil {
		return err
	}
	reasons := map[string]*atomic.Uint64{"queue": &q.full, "export": &q.failed}
	maps.Copy(reasons, others)
	for reason, n := range reasons {
		opts := prometheus.CounterOpts{Name: prefix + "_dropped_total", ConstLabels: prometheus.Labels{"reason": reason}, Help: dropped}
		if err := counter(n, opts); err != nil {
			return err
		}
	}
	return nil
}
