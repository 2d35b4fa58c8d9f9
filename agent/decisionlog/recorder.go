package decisionlog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Output is a sink with its names.
type Output struct {
	// Name is the sink's in metrics and logs. No two have the same.
	Name string
	// ID is the same after a restart, if it is the same sink. It names a file.
	ID   string
	Sink Sink
}

// Config of a Recorder.
type Config struct {
	// Agent is its name.
	Agent   string
	Outputs []Output
	// QueueBytes of records wait for each sink; 0 means DefaultQueueBytes.
	QueueBytes int64
	// Spool is the folder of the records of tenants with a strict audit, and SpoolBytes its size. Without
	// an Output there is none.
	Spool      string
	SpoolBytes int64
	// Tenants returns the settings of a tenant.
	Tenants func(tenant string) script.TenantSettings
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// The defaults of a Config.
const (
	DefaultQueueBytes = 16 << 20
	DefaultSpoolBytes = 256 << 20
)

// Recorder brings the records of calls to sinks. It is safe for concurrent use.
type Recorder struct {
	cfg     Config
	chooser *Chooser
	labels  string // as JSON
	spool   *spool.Spool
	outputs []*output
	metrics *metrics
	stop    context.CancelFunc
	ended   sync.WaitGroup
	closed  atomic.Bool
}

var _ execute.Observer = (*Recorder)(nil)

// New returns a recorder that writes to the outputs until Close, which closes them.
func New(cfg Config) (*Recorder, error) {
	if cfg.QueueBytes == 0 {
		cfg.QueueBytes = DefaultQueueBytes
	}
	labels, err := json.Marshal(map[string]string{decision.LabelAgent: cfg.Agent})
	if err != nil {
		return nil, err // text does not fail
	}
	r := &Recorder{cfg: cfg, chooser: NewChooser(cfg.Tenants), labels: string(labels)}
	if r.metrics, err = newMetrics(cfg.Metrics, r); err != nil {
		return nil, err
	}
	if len(cfg.Outputs) > 0 && cfg.SpoolBytes > 0 {
		if r.spool, err = spool.Open(spool.Config{Dir: cfg.Spool, MaxBytes: cfg.SpoolBytes, Log: cfg.Log}); err != nil {
			return nil, err
		}
	}
	for _, o := range cfg.Outputs {
		out := newOutput(o, cfg, r.metrics)
		if r.spool != nil {
			out.spooled = r.spool.Reader(o.ID)
		}
		r.outputs = append(r.outputs, out)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	for _, out := range r.outputs {
		out.start()
	}
	r.ended.Go(func() { r.tellDropped(ctx) })
	return r, nil
}

// Ended implements execute.Observer.
func (r *Recorder) Ended(ctx context.Context, e *execute.Ended) error {
	entry := r.chooser.Entry(e)
	if entry == nil {
		return nil
	}
	defer entry.Release()
	kept, err := r.Record(entry)
	if err == nil && kept != nil {
		err = kept.within(ctx, keepPatience)
	}
	if err != nil {
		return NotKept(entry.Tenant, err)
	}
	return nil
}

// maxLost bounds how many records a process says at once that it has dropped.
const maxLost = 1 << 20

// Lost counts records that the process of a tenant could not hand over.
func (r *Recorder) Lost(n int64) {
	if n > 0 {
		r.metrics.lost.Add(float64(min(n, maxLost)))
	}
}

// Kept says when a record is on disk.
type Kept struct {
	commit  *spool.Commit
	refused prometheus.Counter
}

// Wait returns when the record is on disk, with an error if it may not be, or if ctx is done before: the
// call fails then. It is called once.
func (k *Kept) Wait(ctx context.Context) error {
	err := k.commit.Wait(ctx)
	if err != nil {
		k.refused.Inc()
	}
	return err
}

// keepPatience is how long a call waits for its record: a disk that hangs must not hold it up.
const keepPatience = 5 * time.Second

func (k *Kept) within(ctx context.Context, long time.Duration) error {
	if ctx.Err() != nil { // the call ended with that, and has its record all the same
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	return k.Wait(ctx)
}

// errNoSink says that there is nothing to keep records for.
var errNoSink = errors.New("this agent has no decision log: start it with --decision-log, such as file:/var/log/scriptorium/decisions.jsonl, and --decision-spool-bytes above 0")

// Record hands the entry over to the sinks. If it is strict, the call has to wait for what is returned;
// otherwise that is nil, and there is no error.
func (r *Recorder) Record(e *Entry) (*Kept, error) {
	if e.Strict {
		return r.keep(e)
	}
	if len(r.outputs) == 0 || r.closed.Load() {
		return nil, nil
	}
	made := newRecord(e.Tenant)
	made.line = e.Append(made.line, r.labels)
	for _, out := range r.outputs {
		made.refs.Add(1)
		if !out.queue.add(made) {
			made.refs.Add(-1)
			out.drop(out.full, 1)
		}
	}
	made.release()
	return nil, nil
}

func (r *Recorder) keep(e *Entry) (_ *Kept, err error) {
	defer func() {
		if err != nil {
			r.metrics.refused.Inc()
		}
	}()
	if r.spool == nil {
		return nil, errNoSink
	}
	made := newRecord(e.Tenant)
	defer made.release()
	made.line = e.Append(made.line, r.labels)
	commit, err := r.spool.Append(e.Tenant, made.line)
	if err != nil {
		return nil, err
	}
	return &Kept{commit, r.metrics.refused}, nil
}

// NotKept is what a call of the tenant fails with whose record is not kept.
func NotKept(tenant string, err error) error {
	refused := script.Errorf(script.Unavailable, script.FieldAudit, "the audit of tenant %s is strict, and the record of the call is not kept: %v", tenant, err)
	refused.Err = err
	return refused
}

// tellEvery is how often the log says at most that records were dropped.
const tellEvery = time.Minute

// tellDropped says in the log which records were dropped.
func (r *Recorder) tellDropped(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, out := range r.outputs {
				out.tellDropped(now)
			}
		}
	}
}

// Close takes no more records, writes those that wait until ctx is done, and closes the sinks.
func (r *Recorder) Close(ctx context.Context) error {
	if r.closed.Swap(true) {
		return nil
	}
	var closing sync.WaitGroup
	errs := make([]error, len(r.outputs)+1)
	for i, out := range r.outputs {
		closing.Go(func() { errs[i] = out.close(ctx) })
	}
	closing.Wait()
	r.stop()
	r.ended.Wait()
	if r.spool != nil {
		errs[len(r.outputs)] = r.spool.Close()
	}
	return errors.Join(errs...)
}
