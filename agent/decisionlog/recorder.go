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

	"github.com/scriptorium-dev/scriptorium/agent/callring"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Output is a sink with its names.
type Output struct {
	// Name is unique. Metrics and logs have it.
	Name string
	// ID stays the same across restarts. It is the name of a file.
	ID   string
	Sink Sink
}

// Config of a Recorder.
type Config struct {
	// Agent is the name of the agent.
	Agent   string
	Outputs []Output
	// QueueBytes bounds the records that wait for each sink; 0 means DefaultQueueBytes.
	QueueBytes int64
	// Spool is the folder for records of tenants with a strict audit, and SpoolBytes its maximum size. Without Outputs, or
	// if SpoolBytes is 0, there is no spool.
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

// Recorder writes the records of calls to sinks. It is safe for concurrent use.
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
	recent  callring.Ring
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
	r.ended.Go(func() { r.logDropped(ctx) })
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
		err = kept.within(ctx, keepTimeout)
	}
	if err != nil {
		return NotKept(entry.Tenant, err)
	}
	return nil
}

// maxLost bounds the number in one call of Lost: processes of tenants are not trusted.
const maxLost = 1 << 20

// Lost counts records that the process of a tenant dropped.
func (r *Recorder) Lost(n int64) {
	if n > 0 {
		r.metrics.lost.Add(float64(min(n, maxLost)))
	}
}

// Kept is a strict record on its way to the disk.
type Kept struct {
	commit  *spool.Commit
	refused prometheus.Counter
}

// Wait waits until the record is on disk. After an error, or if ctx is done before, the record may be missing: the call
// must fail. Call Wait once.
func (k *Kept) Wait(ctx context.Context) error {
	err := k.commit.Wait(ctx)
	if err != nil {
		k.refused.Inc()
	}
	return err
}

// keepTimeout bounds the time that a call waits for its record, for example if the disk hangs.
const keepTimeout = 5 * time.Second

// within is Wait with a timeout.
func (k *Kept) within(ctx context.Context, long time.Duration) error {
	if ctx.Err() != nil { // a canceled call needs a record, too
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	return k.Wait(ctx)
}

// Recent returns the records of some recent calls of the script that had inputs, the newest first, also if there are no
// outputs. They are not to be changed.
func (r *Recorder) Recent(name script.Name) [][]byte { return r.recent.Of(name) }

// errNoSink is the error of strict records on an agent without a spool.
var errNoSink = errors.New("this agent has no decision log: start it with --decision-log, such as file:/var/log/scriptorium/decisions.jsonl, and --decision-spool-bytes above 0")

// Record queues the entry for the sinks. If the entry is strict, the call must wait for the returned Kept. Otherwise
// Kept and the error are nil.
func (r *Recorder) Record(e *Entry) (*Kept, error) {
	if e.Script != "" && len(e.Input) > 0 {
		r.recent.Offer(script.Name{Tenant: e.Tenant, Script: e.Script}, time.Now(), func() []byte { return e.Append(nil, r.labels) })
	}
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

// NotKept returns the error of a call whose strict record is not on disk.
func NotKept(tenant string, err error) error {
	refused := script.Errorf(script.Unavailable, script.FieldAudit, "the audit of tenant %s is strict, and the record of the call is not kept: %v", tenant, err)
	refused.Err = err
	return refused
}

// logEvery is the minimum interval between log messages about dropped records.
const logEvery = time.Minute

// logDropped logs dropped records until ctx is done.
func (r *Recorder) logDropped(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, out := range r.outputs {
				out.logDropped(now)
			}
		}
	}
}

// Close rejects new records, writes pending ones until ctx is done, and closes the sinks.
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
