package decisionlog

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a recorder.
type metrics struct {
	records, bytes, drops *prometheus.CounterVec
	refused, lost         prometheus.Counter
}

// The reasons why a record is dropped.
const (
	droppedFull   = "full"   // the queue of the sink is full
	droppedFailed = "failed" // the sink has not accepted it for a minute

	droppedRejected = "rejected" // the collector behind the sink will never accept it
	droppedLost     = "lost"     // its file in the spool was deleted or damaged
)

// fromProcesses is the label sink of the records that processes of tenants dropped.
const fromProcesses = "process"

func newMetrics(reg prometheus.Registerer, r *Recorder) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "scriptorium_decision_log_" + name, Help: help}, labels)
	}
	m := &metrics{
		records: counter("records_total", "Records of calls that a sink has taken.", "sink"),
		bytes:   counter("bytes_total", "Bytes of these records.", "sink"),
		drops:   counter("dropped_total", "Records that a sink did not get, by reason: full, too many waited for it; failed, it did not take them for a minute; rejected, it never will; lost, their files in the spool were deleted or damaged.", "sink", "reason"),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scriptorium_decision_log_refused_calls_total", Help: "Calls of tenants with a strict audit that failed because their record was not kept.",
		}),
	}
	m.lost = m.drops.WithLabelValues(fromProcesses, droppedFull)
	if reg == nil {
		return m, nil
	}
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_decision_log_queue_bytes", Help: "Memory of the records that wait for sinks.",
	}, func() float64 { return float64(r.queued()) })
	spooled := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_decision_log_spool_bytes", Help: "Records on disk of tenants with a strict audit that wait for sinks, in bytes.",
	}, func() float64 { return float64(r.spooled()) })
	for _, c := range []prometheus.Collector{m.records, m.bytes, m.drops, m.refused, queued, spooled} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the decision log's metrics: %w", err)
		}
	}
	return m, nil
}

// queued returns the bytes in all queues. A record that waits for several sinks counts for each.
func (r *Recorder) queued() (n int64) {
	for _, out := range r.outputs {
		n += out.queue.bytes()
	}
	return n
}

func (r *Recorder) spooled() int64 {
	if r.spool == nil {
		return 0
	}
	return r.spool.Bytes()
}
