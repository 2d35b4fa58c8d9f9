package decisionlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
)

// Syncer is a sink that can lose written records when the machine crashes.
type Syncer interface {
	// Sync returns when all written records are durable.
	Sync() error
}

// output writes the records of a queue, and of the spool, to one sink.
type output struct {
	sink    Sink
	queue   *queue
	spooled *spool.Reader // nil if there is no spool
	log     *slog.Logger

	records, bytes, full, failed, rejected, vanished prometheus.Counter

	lost    atomic.Int64 // records dropped since the last log message about them
	logged  time.Time    // when that message was logged
	failing bool

	closing chan struct{}      // closed by close
	cancel  context.CancelFunc // cancels writes
	idle    chan struct{}      // closed when run has returned
}

const (
	// window is how long the first record of a batch waits for more records.
	window = 10 * time.Millisecond
	// retryFor is how long a batch of the queue is retried. The pauses grow from soonest to latest.
	retryFor = time.Minute
	soonest  = 100 * time.Millisecond
	latest   = 5 * time.Second
	// endFor is how long a sink may take to return after its context is done.
	endFor = time.Second
)

func newOutput(o Output, cfg Config, m *metrics) *output {
	return &output{
		sink: o.Sink, queue: newQueue(cfg.QueueBytes), log: cfg.Log.With("sink", o.Name),
		records: m.records.WithLabelValues(o.Name), bytes: m.bytes.WithLabelValues(o.Name),
		full: m.drops.WithLabelValues(o.Name, droppedFull), failed: m.drops.WithLabelValues(o.Name, droppedFailed),
		rejected: m.drops.WithLabelValues(o.Name, droppedRejected), vanished: m.drops.WithLabelValues(o.Name, droppedLost),
		closing: make(chan struct{}), idle: make(chan struct{}),
	}
}

// start writes records until close.
func (o *output) start() {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go o.run(ctx)
}

func (o *output) run(ctx context.Context) {
	defer close(o.idle)
	var ready <-chan struct{}
	if o.spooled != nil {
		ready = o.spooled.Ready()
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	for closing := false; !closing; {
		select {
		case <-o.queue.ready:
			timer.Reset(window)
			select {
			case <-timer.C:
			case <-o.queue.full:
			case <-o.closing:
			}
		case <-ready:
		case <-o.closing:
			closing = true
		}
		for again := true; again; { // alternates, so that neither starves the other
			again = o.writeQueue(ctx)
			again = (o.writeSpool(ctx) || again) && ctx.Err() == nil
		}
	}
}

// writeQueue writes a batch of the queue, and reports whether there was one.
func (o *output) writeQueue(ctx context.Context) bool {
	batch, lines := o.queue.take(nil, nil)
	if len(batch) == 0 {
		return false
	}
	defer o.queue.done(batch)
	if !o.try(ctx, lines, retryFor, nil) {
		o.drop(o.failed, len(lines))
	}
	return true
}

// writeSpool writes a batch of the spool, and reports whether there was one.
func (o *output) writeSpool(ctx context.Context) bool {
	if o.spooled == nil {
		return false
	}
	lines, err := o.spooled.Next(nil)
	o.vanished.Add(float64(o.spooled.TakeLost())) // the spool has logged why
	if err != nil {
		o.log.Error("the decision log's spool cannot be read; trying again", "error", err)
		o.pause(ctx, latest)
		return ctx.Err() == nil
	}
	if len(lines) == 0 {
		return false
	}
	sync := func() error { return nil }
	if s, ok := o.sink.(Syncer); ok {
		sync = s.Sync
	}
	if !o.try(ctx, lines, 0, sync) {
		return false // the records stay in the spool for the next process
	}
	if err := o.spooled.Advance(); err != nil {
		o.log.Warn("how far a sink is in the decision log's spool is not on disk; records would come twice after a restart", "error", err)
	}
	return true
}

// try retries until the sink has accepted the lines, or until long has passed or, if long is 0, ctx is done.
func (o *output) try(ctx context.Context, lines [][]byte, long time.Duration, sync func() error) bool {
	began := time.Now()
	for delay := soonest; ; delay = min(2*delay, latest) {
		err := o.sink.Write(ctx, lines)
		lost := 0
		if r, ok := errors.AsType[*Rejected](err); ok {
			err, lost = nil, r.Records
		}
		if err == nil && sync != nil {
			err = sync()
		}
		if err == nil {
			o.wrote(lines, lost)
			return true
		}
		if !o.failing {
			o.failing = true
			o.log.Error("a sink of the decision log does not take records; trying again", "error", err)
		}
		if ctx.Err() != nil || long > 0 && time.Since(began)+delay > long {
			return false
		}
		o.pause(ctx, delay)
	}
}

// wrote counts the lines that the sink has accepted, and those that it rejected.
func (o *output) wrote(lines [][]byte, rejected int) {
	if o.failing {
		o.failing = false
		o.log.Info("a sink of the decision log takes records again")
	}
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	o.records.Add(float64(len(lines) - rejected))
	if rejected == 0 {
		o.bytes.Add(float64(size))
	} else {
		o.bytes.Add(float64(size) * float64(len(lines)-rejected) / float64(len(lines))) // an estimate
		o.drop(o.rejected, rejected)
	}
}

func (o *output) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drop counts dropped records.
func (o *output) drop(reason prometheus.Counter, n int) {
	reason.Add(float64(n))
	o.lost.Add(int64(n))
}

// logDropped logs the number of dropped records, at most once per logEvery.
func (o *output) logDropped(now time.Time) {
	if now.Sub(o.logged) < logEvery {
		return
	}
	if n := o.lost.Swap(0); n > 0 {
		o.logged = now
		o.log.Warn("records of the decision log were dropped: the sink is too slow, or fails", "records", n)
	}
}

// close writes the pending records until ctx is done, and closes the sink.
func (o *output) close(ctx context.Context) error {
	o.queue.close()
	close(o.closing)
	defer o.cancel()
	select {
	case <-o.idle:
	case <-ctx.Done():
		o.cancel()
		select {
		case <-o.idle:
		case <-time.After(endFor):
			return fmt.Errorf("a sink of the decision log hangs: %w", context.Cause(ctx))
		}
	}
	if left, _ := o.queue.take(nil, nil); len(left) > 0 {
		o.log.Warn("records of the decision log were dropped: the agent ends before the sink has taken them")
	}
	return o.sink.Close(ctx)
}
